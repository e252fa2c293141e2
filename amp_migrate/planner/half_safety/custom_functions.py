"""Custom autograd functions of a migrated file: they keep float32, by `custom_fwd` and
`custom_bwd`.

Their forward would run under autocast and their backward outside of it, so that the types differ;
extensions would be handed half pointers. With AMP off the decorators only pass through.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator

from amp_migrate.model.gradients.bounded_backwards import bound_in
from amp_migrate.model.half_safety.demands import is_raw_pointer
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Function, Scope
from amp_migrate.model.syntax.queries import names_in, nodes_in
from amp_migrate.model.values.kinds import Kind
from amp_migrate.planner.half_safety.applied_functions import (
    applied,
    class_named,
)
from amp_migrate.planner.half_safety.autograd_functions import (
    BACKWARD,
    FORWARD,
    Custom,
    decorate,
    decorator,
    functions,
    multiplies,
    unprotected,
    writes_in_place,
    written,
)
from amp_migrate.planner.half_safety.half_gradients import raises_on_half
from amp_migrate.planner.half_safety.inner_graphs import (
    copies_flags,
    is_in_sight,
)
from amp_migrate.planner.refusal import Refusal, place_of
from amp_migrate.planner.spelling import Spelling
from amp_migrate.records import NamedTuple
from amp_migrate.rewrite.edits import Edit
from amp_migrate.torch_facts.amp_api import EXTENSIONS


class Decorated(NamedTuple):
    """One edit, and the decorator that it brings."""

    edit: Edit
    decorator: str


def decorations(
    program: Program,
    wanted: Iterable[Custom],
    spelling: Spelling,
    device: str,
) -> Iterator[Decorated]:
    """The decorators that some of the functions of a program need on a device."""
    for custom in wanted:
        forward, backward = custom.method("forward"), custom.method("backward")
        if forward is None or not _mendable(program, custom):
            continue
        if not _wants(program, custom):
            continue
        there, back = written(spelling, device, not copies_flags(custom))
        yield Decorated(decorate(program, forward, there), there)
        if backward is not None:
            yield Decorated(decorate(program, backward, back), back)


def mends(program: Program, cls: ast.ClassDef) -> bool:
    """Whether a function of this program gets its decorators."""
    own = [c for c in functions(program) if c.node is cls]
    return any(
        _mendable(program, custom) and _wants(program, custom) for custom in own
    )


def _methods(custom: Custom) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [
        m
        for name in ("forward", "backward")
        if (m := custom.method(name)) is not None
    ]


def _mendable(program: Program, custom: Custom) -> bool:
    """Whether its methods can be decorated: `custom_fwd` marks the first argument. What counts
    neighbours has no backward.
    """
    methods = _methods(custom)
    of_class = set(map(_is_of_class, methods))
    if custom.method("forward") is None or len(of_class) > 1:
        return False
    if custom.method("setup_context") or _has_another(program, custom):
        return False
    if writes_in_place(custom) and not copies_flags(custom):
        return False
    if copies_flags(custom) and any(
        _multiplies(program, one) and not is_in_sight(program, one)
        for method in methods
        for one in nodes_in(method)
    ):
        return False
    return not any(
        decorator(program, m, FORWARD | BACKWARD) or _one_line(m)
        for m in methods
    )


def _has_another(program: Program, custom: Custom) -> bool:
    """Whether a backward that is not its own may be a function's: of another base, or of heirs."""
    if custom.method("backward") is not None:
        return False
    heirs = program.graph.heirs(custom.node)
    return len(custom.node.bases) > 1 or any(
        one is not custom.node for one in heirs
    )


def _wants(program: Program, custom: Custom) -> bool:
    """Whether a function that is applied multiplies, or calls code out of sight, which may be an
    extension.
    """
    name = custom.node.name
    is_applied = f"{name}.apply" in program.module.text
    files = program.module.files
    is_kept = bool(custom.node.decorator_list) or any(
        name in names_in(file.tree) for file in files
    )
    return (is_applied or is_kept) and _computes(program, custom)


def _computes(program: Program, custom: Custom) -> bool:
    """Whether it multiplies, runs code out of sight, or what it is given to run, or cannot take
    half gradients.
    """
    computes = any(
        _multiplies(program, node) or _runs_given(custom, method, node)
        for method in _methods(custom)
        for node in nodes_in(method)
    )
    return computes or raises_on_half(custom)


def _runs_given(custom: Custom, method: Function, node: ast.AST) -> bool:
    """`ctx.run_function(*inputs)`, by which a checkpoint computes again in its backward: there
    autocast is off, and the weights meet half inputs.
    """
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Name):
        return any(node.func.id == one.arg for one in method.args.args[1:])
    dotted = dotted_name(node.func)
    return dotted is not None and any(
        dotted_name(target) == dotted
        for own in _methods(custom)
        for stored in nodes_in(own)
        if isinstance(stored, ast.Assign)
        for target in stored.targets
    )


def _is_of_class(method: Function) -> bool:
    """Whether the first argument, which `custom_fwd` marks, is the class."""
    return "classmethod" in map(dotted_name, method.decorator_list)


def _one_line(method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return method.body[0].lineno == method.lineno


def _multiplies(program: Program, node: ast.AST) -> bool:
    """Whether a node multiplies matrices, or calls code out of sight, which may be an extension."""
    name = program.canonical(node.func) if isinstance(node, ast.Call) else None
    if is_raw_pointer(node):
        return True
    if (
        multiplies(program, node)
        or name is not None
        and not name.startswith(_KNOWN)
    ):
        return True
    if not isinstance(node, ast.Call):
        return False
    return _is_loaded(program, node.func) or _is_unseen(program, node)


def _is_unseen(program: Program, call: ast.Call) -> bool:
    """`src.gpu.forward(...)` of a package in sight, where nothing in sight is called so."""
    scope = program.module.scope_of(call)
    head, _, rest = (dotted_name(call.func) or "").partition(".")
    imported = scope.module.imports.names.get(head)
    if (
        not rest
        or imported is None
        or imported.startswith(_KNOWN)
        or imported == "torch"
    ):
        return False
    return (
        program.values.callee(call, scope) is None
        and program.values.abroad(call.func, scope) is None
        and program.graph.class_named(call.func, scope) is None
    )


def _is_loaded(program: Program, func: ast.expr) -> bool:
    """`kernels.forward` of `kernels = torch.utils.cpp_extension.load(...)`."""
    holder = func.value if isinstance(func, ast.Attribute) else None
    if not isinstance(holder, ast.Name):
        return False
    made = (
        one.value for one in program.reaching.at(holder, holder.id).bindings
    )
    calls = (one.func for one in made if isinstance(one, ast.Call))
    return any(
        (program.canonical(one) or "").startswith(EXTENSIONS) for one in calls
    )


_KNOWN = (
    "torch.",
    "numpy.",
    "math.",
    "functools.",
    "itertools.",
    "os.",
    "sys.",
    "warnings.",
    "typing.",
)


def refuse_bounded(
    program: Program, call: ast.Call, scope: Scope, *, scaled: bool
) -> None:
    """Raise Refusal for a function whose backward does not pass the scaler's factor on."""
    for custom in applied(program, call, scope) if scaled else ():
        _refuse_bounded(call, custom)


def _refuse_bounded(call: ast.Call, custom: Custom) -> None:
    backward = custom.method("backward")
    if backward is None:
        return
    found = bound_in(custom.program, backward)
    if found is not None:
        raise Refusal(
            "gradient-mutated",
            call,
            f"`{custom.node.name}` computes `{ast.unparse(found)}` in its backward "
            f"({place_of(custom.program, found)}), where gradients carry the scaler's factor "
            "(65,536 at first), which this does not pass on",
        )


def perhaps_applied(
    program: Program, call: ast.Call, scope: Scope
) -> list[Custom]:
    """The functions of the program that `TABLE["product"].apply(x)`, or a variable that holds such
    an `apply`, may run.
    """
    if applied(program, call, scope):
        return []
    func = call.func
    dotted = dotted_name(func)
    bindings = (
        program.reaching.at(func, dotted).bindings if dotted is not None else ()
    )
    values = [func, *(one.value for one in bindings)]
    if not any(_is_open_apply(program, one) for one in values):
        return []
    return [
        one
        for one in functions(program)
        if _mendable(program, one) and _computes(program, one)
    ]


def _is_open_apply(program: Program, expr: ast.expr | None) -> bool:
    """`table[name].apply`, of no module: these apply functions to their parts."""
    if not isinstance(expr, ast.Attribute) or expr.attr != "apply":
        return False
    if expr.value not in program.module.parents:
        return False
    scope = program.module.scope_of(expr.value)
    named = class_named(program, expr.value, scope)
    return named is None and program.values.kind(expr.value, scope) in (
        Kind.UNKNOWN,
        Kind.OTHER,
    )


def refuse_unprotected(
    program: Program,
    call: ast.Call,
    scope: Scope,
    has_gradient: Callable[[ast.expr], bool],
) -> list[Custom]:
    """The custom functions that a call may run which are going to be decorated. Raises Refusal
    where one multiplies without `custom_fwd`, and nothing here decorates it. One that is given
    nothing that has a gradient runs no backward, and is as safe as any function.
    """
    found = applied(program, call, scope)
    for custom in found:
        _refuse_old_style(call, custom)
    given = [*call.args, *(one.value for one in call.keywords)]
    if given and not any(map(has_gradient, given)):
        return []
    return [one for one in found if _is_decorated(program, call, one)]


def _is_decorated(program: Program, call: ast.Call, custom: Custom) -> bool:
    is_own = custom.program is program
    if is_own and mends(program, custom.node):
        return True
    if isinstance(call.func, ast.Call) or not _is_unprotected(
        custom.program, custom
    ):
        return False
    raise unprotected(call, custom, elsewhere=not is_own)


def _refuse_old_style(call: ast.Call, custom: Custom) -> None:
    """Functions whose forward belongs to an object: torch 1.5 and later refuse to run them, and
    mixed precision came with 1.6.
    """
    forward = custom.method("forward")
    is_object = forward is not None and not forward.decorator_list
    if is_object and isinstance(call.func, ast.Call):
        raise Refusal(
            "removed-api",
            call,
            f"`{custom.node.name}` is an autograd function of the old style, without static "
            "methods, which no torch with mixed precision runs: give it a static forward and "
            "backward that take ctx, and call its apply",
        )


def _is_unprotected(program: Program, custom: Custom) -> bool:
    """Whether its methods are undecorated and multiply, or run code out of sight."""
    methods = _methods(custom)
    if any(decorator(program, method, FORWARD) for method in methods):
        return False
    return _computes(program, custom)
