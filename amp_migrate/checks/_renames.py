"""From the old names of `torch.cuda.amp` and `torch.cpu.amp` to those of `torch.amp`, with every
use of an import at once.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from amp_migrate.checks._finding import Fix
from amp_migrate.model.naming.uses import Use
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.queries import constants_in
from amp_migrate.model.syntax.span import Span
from amp_migrate.rewrite.edits import (
    AddImport,
    Edit,
    ReplaceExpression,
    ReplaceStatement,
    Template,
)
from amp_migrate.torch_facts.amp_api import DEPRECATED, ROLES, Callable

_WRITTEN = {"autocast": ("dtype", "enabled", "cache_enabled")}


class CannotRenameError(Exception):
    """A use that no fixed form covers."""


def renaming(program: Program, use: Use) -> Fix | None:
    """The fix of one old use; an import that it comes from is changed together with all
    its uses.
    """
    try:
        edits = tuple(_edits(program, use))
    except CannotRenameError:
        return None
    return Fix(
        "safe",
        (
            "use the name of `torch.amp`, with the arguments by keyword and the implied type "
            "written "
            "out"
        ),
        edits,
        since=(2, 4),
    )


def _edits(program: Program, use: Use) -> Iterator[Edit]:
    root = root_of(use.node)
    statement = import_of(program, root.id)
    module = use.name.rpartition(".")[0]
    if statement is None or not _is_plain(statement, module):
        yield from _without_import(program, use, statement) or _one(
            program, use, _full_name(program, use)
        )
        return
    for other in program.uses.all():
        if import_of(program, root_of(other.node).id) is statement:
            yield from _one(program, other, program.module.source(other.node))
    yield _new_import(program, statement, module)


def _without_import(
    program: Program, use: Use, statement: ast.ImportFrom | ast.Import | None
) -> list[Edit]:
    """All uses of an imported name at once, and the import without it; nothing where the name is
    needed for more.
    """
    name = root_of(use.node).id
    if (
        statement is None
        or name == torch_name(program)[0]
        or program.module.path.endswith("__init__.py")
    ):
        return []
    uses = [
        other for other in program.uses.all() if root_of(other.node).id == name
    ]
    roots = {id(root_of(other.node)) for other in uses}
    is_all = all(
        id(node) in roots for node in _loads(program, name)
    ) and name not in _exported(program)
    if not is_all or any(
        other.call is None and not is_decorator(program, other.node)
        for other in uses
    ):
        return []
    try:
        edits = [
            edit
            for other in uses
            for edit in _one(program, other, _full_name(program, other))
        ]
    except CannotRenameError:
        return []
    return [*edits, _less(program, statement, name)]


def _loads(program: Program, name: str) -> list[ast.Name]:
    return [
        n
        for n in program.module.parents
        if isinstance(n, ast.Name)
        and n.id == name
        and isinstance(n.ctx, ast.Load)
    ]


def _exported(program: Program) -> set[object]:
    """The strings of the module's `__all__`."""
    bindings = program.module.root.bindings.get("__all__", [])
    values = [b.value for b in bindings if b.value is not None]
    return set().union(*(constants_in(value) for value in values))


def _less(
    program: Program, statement: ast.ImportFrom | ast.Import, name: str
) -> Edit:
    """The import without `name`."""
    kept = [one for one in statement.names if (one.asname or one.name) != name]
    names = ", ".join(
        f"{one.name} as {one.asname}" if one.asname else one.name
        for one in kept
    )
    head = (
        f"from {'.' * statement.level}{statement.module or ''} "
        if isinstance(statement, ast.ImportFrom)
        else ""
    )
    return ReplaceStatement(
        program.module.span(statement),
        (Template(f"{head}import {names}"),) if kept else (),
    )


def root_of(node: ast.Attribute | ast.Name) -> ast.Name:
    """The name at the head of `a.b.c`."""
    inner: ast.expr = node
    while isinstance(inner, ast.Attribute):
        inner = inner.value
    assert isinstance(inner, ast.Name)
    return inner


def import_of(
    program: Program, name: str
) -> ast.ImportFrom | ast.Import | None:
    """The import statement that binds `name`, where there is exactly one."""
    found = [
        one
        for one in program.module.import_statements
        for alias in one.names
        if (alias.asname or alias.name) == name
    ]
    return found[0] if len(found) == 1 else None


def _is_plain(
    statement: ast.ImportFrom | ast.Import,
    module: str,
) -> bool:
    """`from torch.cuda.amp import autocast, GradScaler` or `from torch.cuda import amp`, with
    nothing else in it.
    """
    if not isinstance(statement, ast.ImportFrom) or statement.level:
        return False
    names = {alias.name for alias in statement.names}
    parent = module.rpartition(".")[0]
    return (statement.module == module and names <= set(ROLES)) or (
        statement.module == parent and names == {"amp"}
    )


def _new_import(
    program: Program, statement: ast.ImportFrom | ast.Import, module: str
) -> Edit:
    """The same import from the new module, with its layout and comments."""
    _, _, names = program.module.source(statement).partition("import")
    new = (
        "torch.amp"
        if isinstance(statement, ast.ImportFrom) and statement.module == module
        else "torch"
    )
    return ReplaceStatement(
        program.module.span(statement), (Template(f"from {new} import{names}"),)
    )


def torch_name(
    program: Program,
) -> tuple[str, tuple[Edit, ...]]:
    """How the module calls torch, and the import where it does not."""
    local = program.module.imports.local("torch")
    return (
        (local, ()) if local is not None else ("torch", (AddImport("torch"),))
    )


def _full_name(
    program: Program,
    use: Use,
) -> str:
    torch, _ = torch_name(program)
    last = use.name.rpartition(".")[2]
    return f"{torch}.autocast" if last == "autocast" else f"{torch}.amp.{last}"


def _one(program: Program, use: Use, name: str) -> Iterator[Edit]:
    """The edits of one use, whose new name is `name`."""
    last = use.name.rpartition(".")[2]
    old = DEPRECATED.get(use.name)
    if old is None:
        raise CannotRenameError
    torch, imports = torch_name(program)
    if use.call is None:
        yield from _bare(program, use, name, old.device)
        return
    arguments = _arguments(use.call, old)
    if (
        last == "autocast"
        and "dtype" not in arguments
        and not _is_off(arguments.get("enabled"))
    ):
        yield from imports
        arguments["dtype"] = f"{torch}.{old.dtype}"
    written = [
        key for key in _WRITTEN.get(last, tuple(arguments)) if key in arguments
    ]
    first = (
        f'device_type="{old.device}"'
        if last.startswith("custom")
        else f'"{old.device}"'
    )
    yield _call(
        program,
        use.call,
        name,
        first,
        [(key, arguments[key]) for key in written],
    )


def _call(
    program: Program,
    call: ast.Call,
    name: str,
    first: str,
    given: Sequence[tuple[str, ast.expr | str]],
) -> Edit:
    parts: list[Span] = []
    said = [first]
    for key, value in given:
        if isinstance(value, str):
            said.append(f"{key}={value}")
        else:
            said.append(f"{key}=${len(parts)}")
            parts.append(program.module.span(value))
    return ReplaceExpression(
        program.module.span(call),
        Template(f"{name}({', '.join(said)})", tuple(parts)),
    )


def _arguments(call: ast.Call, old: Callable) -> dict[str, ast.expr | str]:
    decorates = old.role.startswith("custom")
    order = () if decorates else old.parameters
    if len(call.args) > len(order) or any(
        isinstance(one, ast.Starred) for one in call.args
    ):
        raise CannotRenameError
    found: dict[str, ast.expr | str] = dict(zip(order, call.args, strict=False))
    for keyword in call.keywords:
        if keyword.arg is None:
            raise CannotRenameError
        found[keyword.arg] = keyword.value
    if old.role == "autocast" and not set(found) <= set(order):
        raise CannotRenameError
    return found


def _is_off(
    enabled: ast.expr | str | None,
) -> bool:
    return isinstance(enabled, ast.Constant) and enabled.value is False


def _bare(program: Program, use: Use, name: str, device: str) -> Iterator[Edit]:
    """A decorator without parentheses; the class as a type stays as it is, since the old one
    derives from the new one.
    """
    if use.name.rpartition(".")[2] == "GradScaler":
        return
    if not is_decorator(program, use.node) or not use.name.rpartition(".")[
        2
    ].startswith("custom"):
        raise CannotRenameError
    yield ReplaceExpression(
        program.module.span(use.node),
        Template(f'{name}(device_type="{device}")'),
    )


def is_decorator(
    program: Program,
    node: ast.expr,
) -> bool:
    """Whether `node` is a decorator itself."""
    above = program.module.parents[node]
    return any(node is one for one in getattr(above, "decorator_list", ()))
