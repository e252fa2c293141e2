"""`apex.amp` is imported, which apex has removed."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._finding import Finding, Rule, finding_at
from amp_migrate.config import Settings
from amp_migrate.model.program import Program

RULE = Rule("apex-amp-import", severity="error")
_MESSAGE = (
    "apex removed `apex.amp` in 2025, so this raises with a current apex: use "
    "`torch.autocast` and `torch.amp.GradScaler`"
)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Imports of the module, else the first use of it through the package; guarded ones are
    silent.
    """
    found = False
    for statement in program.module.import_statements:
        for alias in statement.names:
            if _names_amp(statement, alias) and not program.uses.is_guarded(
                statement
            ):
                found = True
                yield finding_at(program, statement, RULE, _MESSAGE)
    if found:
        return
    for use in program.uses.where(
        lambda name: name == "apex.amp" or name.startswith("apex.amp.")
    ):
        if _is_import(program, "apex") and not program.uses.is_guarded(
            use.node
        ):
            yield finding_at(program, use.node, RULE, _MESSAGE)
            return


def _names_amp(
    statement: ast.Import | ast.ImportFrom, alias: ast.alias
) -> bool:
    if isinstance(statement, ast.Import):
        return alias.name == "apex.amp" or alias.name.startswith("apex.amp.")
    if statement.level:
        return False
    module = statement.module or ""
    return (
        module == "apex.amp"
        or module.startswith("apex.amp.")
        or (module == "apex" and alias.name == "amp")
    )


def _is_import(program: Program, name: str) -> bool:
    """Whether a plain `import` of `name` stands outside of `try`."""
    return any(
        isinstance(statement, ast.Import)
        and any(
            alias.name.partition(".")[0] == name for alias in statement.names
        )
        and not program.uses.is_guarded(statement)
        for statement in program.module.import_statements
    )
