"""The name exists in no module of that path, or not in the oldest torch that the project
supports.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._finding import (
    CURRENT_TORCH,
    Finding,
    Rule,
    Version,
    finding_at,
)
from amp_migrate.checks._renames import root_of
from amp_migrate.config import Settings
from amp_migrate.model.autocast.regions import NEW
from amp_migrate.model.program import Program
from amp_migrate.torch_facts import amp_api

RULE = Rule("wrong-amp-path", severity="error")

_NO_DEVICE = (
    "this autocast wants the device first, unlike that of `torch.cuda.amp`, so this raises: write "
    '`autocast("cuda", ...)`'
)
_CALLED = "`{}` is a module, so calling it raises: call its `autocast` or `GradScaler`"
_SINCE = {
    name: row.since
    for name in ("torch.GradScaler", "torch.autocast")
    if (row := amp_api.callable_named(name)) is not None
}


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Imports, and attributes of what is imported."""
    target = settings.target_torch or CURRENT_TORCH
    for statement in program.module.import_statements:
        if (
            isinstance(statement, ast.ImportFrom)
            and not statement.level
            and not program.uses.is_guarded(statement)
        ):
            for alias in statement.names:
                said = _wrong(f"{statement.module}.{alias.name}", target)
                if said is not None:
                    yield finding_at(program, alias, RULE, said)
    asked = _asked(program)
    for use in program.uses.all():
        said = _wrong(use.name, target)
        imported = program.module.imports.names.get(root_of(use.node).id, "")
        if (
            said is not None
            and _wrong(imported, target) is None
            and use.name not in asked
            and not program.uses.is_guarded(use.node)
        ):
            yield finding_at(program, use.node, RULE, said)

    for call, _ in program.uses.calls(*amp_api.FILES):
        if not program.uses.is_guarded(call):
            name = program.canonical(call.func)
            yield finding_at(program, call, RULE, _CALLED.format(name))
    for call in _calls_of_new(program):
        if not call.args and all(
            one.arg not in ("device_type", None) for one in call.keywords
        ):
            yield finding_at(program, call, RULE, _NO_DEVICE)


def _calls_of_new(program: Program) -> Iterator[ast.Call]:
    """Calls of `torch.autocast`, by a variable that holds it, too."""
    calls = [call for call, _ in program.uses.calls(*NEW)]
    regions = program.regions.regions if program.uses.of(*NEW) else ()
    calls += [one.call for one in regions if one.name in NEW]
    yield from dict.fromkeys(calls)


def _asked(program: Program) -> set[str]:
    """The names of which the module asks somewhere whether they are there: `hasattr(torch.cuda.amp,
    "autocast")`. It uses them where they are.
    """
    return {
        f"{program.canonical(owner)}.{name.value}"
        for scope in program.module.scopes.values()
        for call in scope.calls
        if isinstance(call.func, ast.Name)
        and call.func.id in ("hasattr", "getattr")
        and len(call.args) > 1
        for owner, name in (call.args[:2],)
        if isinstance(name, ast.Constant) and isinstance(name.value, str)
    }


def _wrong(name: str, target: Version) -> str | None:
    """What is wrong with a canonical name, or None."""
    for wrong, right in amp_api.NEVER.items():
        if name == wrong or name.startswith(wrong + "."):
            return (
                f"torch has no `{wrong}`, so this raises: the name is `{right}`"
            )
    for module, names in {**amp_api.MEMBERS, "torch": _SINCE}.items():
        first = (
            name.removeprefix(module + ".").partition(".")[0]
            if name.startswith(module + ".")
            else ""
        )
        if module == "torch":
            since = _SINCE.get(f"torch.{first}")
        elif not first or first.startswith("_"):
            continue
        else:
            since = names.get(first)
            if since is None:
                return f"`{module}` has no `{first}`, so this raises"
        if since is not None and since > target:
            return (
                f"`{module}.{first}` is there since torch {_dotted(since)}, but the project "
                f"supports {_dotted(target)}"
            )
    return None


def _dotted(
    version: Version,
) -> str:
    return ".".join(map(str, version))
