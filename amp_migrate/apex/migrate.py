"""Both steps: out of apex, proved; then into torch.amp by the migrator, which proves its
own part.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

from amp_migrate.apex.erase import proved
from amp_migrate.apex.unapex import Unapexed, unapex
from amp_migrate.config import Settings
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.model.syntax.substitution import without_imports
from amp_migrate.outcome import FileOutcome, Joint, LoopOutcome, Note
from amp_migrate.project import nearby
from amp_migrate.project.module_graph import Project

Switches = Mapping[str, Mapping[str, tuple[str, ...]]]
_OFF = (
    "opt_level O0 is plain float32: apex is removed, and torch.amp is not added"
)
_LEFT = "apex.amp is left as it is, for the loop cannot be migrated"
_USE = re.compile(r"(?m)\bamp\s*\.\s*[a-z]|^\s*from\s+apex\.amp\s+import")
_LINE = re.compile(r"^line \d+: ")
_MOST = 40


class Migrate(Protocol):
    """The migrator of float32 programs."""

    def __call__(
        self, texts: Mapping[str, str], settings: Settings, switches: Switches
    ) -> Joint:
        """What becomes of `texts`, by path."""


def migrate_apex(
    texts: Mapping[str, str],
    settings: Settings,
    project: Project | None,
    migrate: Migrate,
) -> Joint | None:
    """What becomes of files of which some use what apex has removed; None where none does.

    Everything of apex is rewritten or nothing: where one loop that scaled its loss by apex cannot
    be migrated, or its `amp.initialize` is in none of these files, they are refused with that
    reason.
    """
    plains = _plains(texts)
    if not _has_apex(texts, plains):
        return None
    company = tuple(_company(plains, project))
    reasons = _reasons(texts, plains)
    if not reasons and _is_off(plains):
        return _joint(_without_apex(texts, plains), company)
    if not reasons:
        joint = _plain_migrated(texts, plains, settings, migrate)
        company = tuple(dict.fromkeys([*joint.company, *company]))
        reasons = _unmigrated(plains, joint.outcomes)
        if not reasons:
            outcomes = joint.outcomes
            done = {p: _done(one, outcomes[p]) for p, one in plains.items()}
            return _joint({**outcomes, **done}, company)
    as_it_was = migrate(texts, settings, {})
    refused = {p: _refused(p, one, reasons) for p, one in plains.items()}
    together = (*as_it_was.company, *company)
    return _joint({**as_it_was.outcomes, **refused}, together)


def _plains(texts: Mapping[str, str]) -> dict[str, Unapexed]:
    """The float32 programs that those with apex stand for, by path."""
    found = {path: _unapexed(text, path) for path, text in texts.items()}
    return {path: one for path, one in found.items() if one is not None}


def _has_apex(texts: Mapping[str, str], plains: Mapping[str, Unapexed]) -> bool:
    """Whether any of them does more than import it."""
    return any(
        plain.refusals or not _only_imported(texts[path], plain.text)
        for path, plain in plains.items()
    )


def _is_off(plains: Mapping[str, Unapexed]) -> bool:
    """Whether apex is started in plain float32 alone."""
    starting = [plain for plain in plains.values() if plain.initializes]
    return bool(starting) and all(plain.always_off for plain in starting)


def _without_apex(
    texts: Mapping[str, str], plains: Mapping[str, Unapexed]
) -> dict[str, FileOutcome]:
    outcomes = {path: FileOutcome(path, "unchanged") for path in texts}
    return outcomes | {path: _off(path, one) for path, one in plains.items()}


def _plain_migrated(
    texts: Mapping[str, str],
    plains: Mapping[str, Unapexed],
    settings: Settings,
    migrate: Migrate,
) -> Joint:
    """What becomes of the programs that the files stand for."""
    # apex runs on CUDA alone, so its programs mean a GPU whether or not they say so.
    on_gpu = (
        settings
        if settings.device is not None
        else settings._replace(device="cuda")
    )
    whole = {
        path: plains[path].text if path in plains else text
        for path, text in texts.items()
    }
    return migrate(
        whole, on_gpu, {path: plain.switches for path, plain in plains.items()}
    )


def _unapexed(text: str, path: str) -> Unapexed | None:
    try:
        return unapex(text, path)
    except (SyntaxError, ValueError):  # the migrator tells it better
        return None


def _only_imported(text: str, plain: str) -> bool:
    """Whether nothing but imports went: what is imported and not used says nothing of the loops."""
    before, after = (
        without_imports(ast.parse(text)),
        without_imports(ast.parse(plain)),
    )
    return ast.dump(before) == ast.dump(after)


def _joint(
    outcomes: Mapping[str, FileOutcome], company: Iterable[str]
) -> Joint:
    return Joint(outcomes, tuple(dict.fromkeys(company)))


def _company(
    plains: Mapping[str, Unapexed], project: Project | None
) -> Iterator[str]:
    """Files of the project that use apex too, and are imported by these or import them."""
    for path in plains if project is not None else ():
        here = str(Path(path).resolve())
        assert project is not None
        yield from project.users(here, "apex")
        yield from (
            file for file in project.helpers(here, _MOST) if _names_apex(file)
        )


def _names_apex(file: str) -> bool:
    """Whether the text of a file holds the word."""
    return b"apex" in (nearby.text_of(file) or b"")


_Reasons = dict[str, list[LoopOutcome]]


def _reasons(
    texts: Mapping[str, str], plains: Mapping[str, Unapexed]
) -> _Reasons:
    """Why the first step cannot be made, by path."""
    found: _Reasons = {}
    for path, plain in plains.items():
        fault = None if plain.refusals else proved(texts[path], plain.text)
        if plain.refusals:
            found[path] = list(plain.refusals)
        elif fault is not None:
            found[path] = [
                _form(
                    _line(plain),
                    f"what apex stood for in this file could not be proved: {fault}",
                )
            ]
    scaled = [path for path, plain in plains.items() if plain.scaled]
    made = [path for path, plain in plains.items() if plain.initializes]
    if (
        not found
        and not scaled
        and any(_USE.search(texts[path]) for path in plains)
    ):
        path = next(iter(plains))
        found[path] = [
            _form(
                1,
                (
                    "apex.amp is used here for a loop in another file, and both have to change "
                    "together"
                ),
            )
        ]
    elif not found and scaled and not made:
        line = _line(plains[scaled[0]])
        why = "`amp.initialize` is called in another file, and both have to change together"
        found[scaled[0]] = [_form(line, why)]
    return found


def _form(line: int, message: str, scope: str = "<module>") -> LoopOutcome:
    return LoopOutcome(line, scope, "refused", "apex-form", message)


def _line(plain: Unapexed) -> int:
    """Where the first scaled loss stands, 1-based."""
    return plain.scaled[0][1] if plain.scaled else 1


def _off(path: str, plain: Unapexed) -> FileOutcome:
    loops = tuple(
        LoopOutcome(line, scope, "migrated") for scope, line in plain.scaled
    )
    return FileOutcome(
        path,
        "migrated",
        loops,
        (*plain.notes, Note(_line(plain), 1, _OFF)),
        plain.text,
    )


def _done(plain: Unapexed, outcome: FileOutcome) -> FileOutcome:
    """The outcome of the second step as that of both; a file without a loop has been through the
    first alone.
    """
    output = plain.text if outcome.output is None else outcome.output
    lines = dict(plain.scaled)
    loops = tuple(
        dataclasses.replace(loop, line=lines.get(loop.scope, loop.line))
        for loop in outcome.loops
    )
    notes = (*plain.notes, *outcome.notes)
    return dataclasses.replace(
        outcome, status="migrated", loops=loops, notes=notes, output=output
    )


def _unmigrated(
    plains: Mapping[str, Unapexed], outcomes: Mapping[str, FileOutcome]
) -> _Reasons:
    """Why the second step cannot be made, by path."""
    found: _Reasons = {}
    for path, plain in plains.items():
        outcome = outcomes[path]
        loops = {loop.scope: loop for loop in outcome.loops}
        bad = [
            _unable(line, scope, loops.get(scope))
            for scope, line in plain.scaled
            if not _is_done(loops.get(scope))
        ]
        if outcome.status == "failed":
            bad = [_form(_line(plain), f"{outcome.error}")]
        if bad:
            found[path] = bad
    switches = [
        text
        for plain in plains.values()
        for texts in plain.switches.values()
        for text in texts
    ]
    if not found and any(
        map(
            _strays,
            (o.output for o in outcomes.values()),
            [switches] * len(outcomes),
        )
    ):
        path = next(iter(plains))
        why = f"AMP was on where `{switches[0]}`, which cannot be read where the scaler is made"
        found[path] = [_form(_line(plains[path]), why)]
    return found


def _is_done(loop: LoopOutcome | None) -> bool:
    """Whether a loop was migrated."""
    return loop is not None and loop.status == "migrated"


def _unable(line: int, scope: str, loop: LoopOutcome | None) -> LoopOutcome:
    if loop is None:
        return _form(
            line,
            "its loss is scaled by apex, and no call of backward on it was found",
            scope,
        )
    if loop.reason == "already-amp":
        why = (
            "apex.amp and torch.amp stand side by side: remove the branches of apex, whose "
            "package no longer has it"
        )
        return _form(line, why, scope)
    message = _LINE.sub(
        "", loop.message or ""
    )  # lines of the program without apex
    return LoopOutcome(
        line, scope, "refused", loop.reason, f"{_LEFT}: {message}"
    )


def _refused(path: str, plain: Unapexed, reasons: _Reasons) -> FileOutcome:
    own = reasons.get(path)
    if own is None:
        other, [first, *_] = next(iter(reasons.items()))
        own = [
            _form(
                _line(plain),
                f"apex.amp stays here as it does in {other}, line {first.line}: {first.message}",
            )
        ]
    return FileOutcome(path, "refused", tuple(own))


def _asked(call: ast.Call) -> ast.expr | None:
    """What a scaler asks for `enabled`; a flag that may be no bool is asked as one."""
    given = next((k.value for k in call.keywords if k.arg == "enabled"), None)
    is_cast = (
        isinstance(given, ast.Call)
        and isinstance(given.func, ast.Name)
        and given.func.id == "bool"
    )
    return given.args[0] if is_cast and isinstance(given, ast.Call) else given


def _strays(output: str | None, switches: list[str]) -> bool:
    """Whether a scaler does not ask what had switched apex on."""
    wanted = {ast.dump(ast.parse(text, mode="eval").body) for text in switches}
    for node in (
        nodes_in(ast.parse(output)) if wanted and output is not None else ()
    ):
        if (
            isinstance(node, ast.Call)
            and ast.unparse(node.func).rpartition(".")[2] == "GradScaler"
        ):
            given = _asked(node)
            is_absent = isinstance(given, ast.Constant) and given.value is False
            if not is_absent and (
                given is None or ast.dump(given) not in wanted
            ):
                return True
    return False
