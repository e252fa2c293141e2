"""Step one: a module that uses `apex.amp` becomes the plain float32 program that it stands for."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from amp_migrate.apex.expressions import Expressions, marked
from amp_migrate.apex.names import ApexNames, is_precision, is_removed
from amp_migrate.apex.refused import Refused
from amp_migrate.apex.replacements import CLASSES, Replacements
from amp_migrate.apex.result import Result, edits_of, plain_of
from amp_migrate.apex.statements import Needed, Seen, Statements
from amp_migrate.apex.switches import switches
from amp_migrate.model.syntax.module import Module
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.outcome import LoopOutcome, Note
from amp_migrate.rewrite.edits import AddImport, Edit

_ABOUT_APEX = re.compile(
    r"(?i)\bapex\b|\bamp\b|fp16|half.precision|mixed.precision|16.bit"
)


@dataclass(frozen=True)
class Unapexed:
    """One module without apex, and what the migrator has to know about it."""

    text: str
    """The plain float32 program; the module itself where it is refused."""
    switches: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What had switched apex on, by the scope (its qualified name) that asked: texts that mean the
    same, the first that can be read where a scaler is made is the one to use. None: it was always
    on.
    """
    notes: tuple[Note, ...] = ()
    """Lines count in the module as it was."""
    refusals: tuple[LoopOutcome, ...] = ()
    scaled: tuple[tuple[str, int], ...] = ()
    """The scopes that scale a loss, and where: these must be migrated, or nothing is."""
    initializes: bool = False
    """Whether `amp.initialize` is called here."""
    always_off: bool = False
    """Every opt_level is the literal O0."""


def unapex(text: str, path: str) -> Unapexed | None:
    """The plain program of a module, None where it does not use what apex has removed, or uses only
    what has nothing to do with precision and has no counterpart.

    Nothing is proved here: `amp_migrate.apex.erase.proved` does that. Raises SyntaxError as
    `ast.parse` does.
    """
    if "apex" not in text:
        return None
    module = Module(text, path)
    names = ApexNames(module)
    used = _used(module, names)
    if not any(is_removed(name) for name in used):
        return None
    try:
        seen, plain = _unapexed(module, names)
        tidy = _without_comments(module, seen)
        if tidy == text:
            return plain
        module = Module(tidy, path)
        return dataclasses.replace(
            plain, text=_unapexed(module, ApexNames(module))[1].text
        )
    except Refused as refused:
        is_form = refused.reason == "apex-form"
        if is_form and not any(map(is_precision, _read(module, names))):
            return (
                None  # a float32 program already, whose `apex.parallel` stays
            )
        return Unapexed(text, refusals=(_refusal(refused),))


def _refusal(
    refused: Refused,
) -> LoopOutcome:
    line, reason, message = refused.line, refused.reason, refused.message
    return LoopOutcome(line, "<module>", "refused", reason, message)


def _without_comments(module: Module, seen: Seen) -> str:
    """The text without the comments about apex that stand right above statements that go."""
    lines = module.text.splitlines(keepends=True)
    dropped: set[int] = set()
    for statement in seen.gone:
        last = first = statement.lineno - 1
        while (
            first
            and lines[first - 1].lstrip().startswith("#")
            and not lines[first - 1].startswith("#!")
        ):
            first -= 1
        if _ABOUT_APEX.search("".join(lines[first:last])) and len(lines) == len(
            module.text.split("\n")
        ) - (module.text.endswith("\n")):
            dropped |= set(range(first, last))
    return "".join(line for i, line in enumerate(lines) if i not in dropped)


def _used(module: Module, names: ApexNames) -> set[str]:
    """What the module imports of apex, and names of it."""
    found = {
        f"{s.module}.{a.name}"
        for s in module.import_statements
        if isinstance(s, ast.ImportFrom) and not s.level
        for a in s.names
    }
    found |= {
        a.name
        for s in module.import_statements
        if isinstance(s, ast.Import)
        for a in s.names
    }
    return found | _read(module, names)


def _read(module: Module, names: ApexNames) -> set[str]:
    """What the module names of apex, beside its imports."""
    return {
        names.canonical(node) or ""
        for node in list(module.parents)
        if isinstance(node, (ast.Name, ast.Attribute))
    }


def _unapexed(module: Module, names: ApexNames) -> tuple[Seen, Unapexed]:
    needed = Needed()
    for _ in range(
        4
    ):  # what is left decides which imports stay, and these decide what is left
        walk, notes, results, torch = _walked(module, names, needed)
        wanted = _needed(module, names, plain_of(results))
        if wanted == needed:
            break
        needed = wanted
    edits: list[Edit] = list(edits_of(results))
    if torch is not None:
        edits.append(torch)
    from amp_migrate.rewrite.writer import WriteError, apply

    try:
        output = apply(module.text, edits)
    except WriteError as error:
        raise Refused(
            "apex-form", module.tree, f"the edits cannot be made: {error}"
        ) from error
    seen = walk.seen
    calls = [call for call, _ in seen.initialized]
    return seen, Unapexed(
        output,
        switches(walk),
        tuple(
            dict.fromkeys([*notes, *_notes(seen), *_evaluation(module, seen)])
        ),
        scaled=tuple(
            (module.scope_of(s).qualname, s.lineno) for s in seen.scaled
        ),
        initializes=bool(calls),
        always_off=bool(calls) and all(call.is_off for call in calls),
    )


def _walked(
    module: Module, names: ApexNames, needed: Needed
) -> tuple[Statements, list[Note], list[Result], AddImport | None]:
    notes: list[Note] = []

    def note(node: ast.AST, message: str) -> None:
        notes.append(
            Note(
                getattr(node, "lineno", 1),
                getattr(node, "col_offset", 0) + 1,
                message,
            )
        )

    local = module.imports.local("torch")
    known = local is not None and local in module.root.bindings
    replacements = Replacements(
        module, names, local if known and local else "torch", note
    )
    walk = Statements(
        module, names, Expressions(module, names, replacements), needed
    )
    results = walk.block(module.tree.body)
    torch = (
        AddImport("torch") if replacements.used_torch and not known else None
    )
    return walk, notes, results, torch


def _needed(
    module: Module, names: ApexNames, plain: tuple[ast.stmt, ...]
) -> Needed:
    """The imports and flags that the plain program still reads. Raises Refused for what apex has
    removed.
    """
    imports: set[str] = set()
    for node, name in marked(plain):
        if isinstance(getattr(node, "ctx", None), ast.Store):
            continue
        if is_removed(name) and name not in CLASSES:
            raise _unknown(node, name)
        imports.add(ast.unparse(node).partition(".")[0])
    flags = {
        n.id
        for s in plain
        for n in nodes_in(s)
        if isinstance(n, ast.Name)
        and isinstance(n.ctx, ast.Load)
        and n.id in module.root.bindings
    }
    exported = set() if _is_script(module) else set(module.root.bindings)
    return Needed(frozenset(imports), frozenset(flags | exported))


def _is_script(module: Module) -> bool:
    """Whether nobody is likely to import from the module."""
    return "__main__" in module.text


def _unknown(node: ast.AST, name: str) -> Refused:
    half = (
        "FP16_Optimizer",
        "network_to_half",
        "FP16Model",
        "prep_param_lists",
        "tofp16",
        "convert_network",
    )
    if name.rpartition(".")[2] in half or name.startswith("apex.fp16_utils"):
        return Refused(
            "apex-half-by-hand",
            node,
            f"`{name}` keeps the model in half by hand, with masters and a scale",
        )
    if name.endswith("LARC"):
        return Refused(
            "apex-optimizer",
            node,
            "LARC wraps the optimizer, and torch has no counterpart",
        )
    return Refused(
        "apex-form", node, f"`{name}` has no counterpart in torch.amp here"
    )


def _notes(seen: Seen) -> list[Note]:
    found = []
    for call, statement in seen.initialized:
        found += [
            Note(statement.lineno, statement.col_offset + 1, message)
            for message in call.notes()
        ]
    return found


def _evaluation(module: Module, seen: Seen) -> list[Note]:
    """What becomes of evaluation: apex ran it in half as well, for it patched torch, or
    the model.
    """
    evaluates = any(
        word in module.identifiers or f".{word}(" in module.text
        for word in ("no_grad", "eval")
    )
    off = all(call.is_off for call, _ in seen.initialized)
    if off or not evaluates:
        return []
    line = seen.initialized[0][1]
    why = (
        "evaluation, which apex ran in half as well, is float32 now; `--eval` puts it under "
        "autocast"
    )
    return [Note(line.lineno, line.col_offset + 1, why)]
