"""Which operator of torch a call spells, and the tensors that it works on."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.calls.arguments import default_of
from amp_migrate.model.classes.looked_up import module_searched, name_searched
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Binding, Scope
from amp_migrate.model.tensors.parameters import arguments, parameter_of
from amp_migrate.model.values.kinds import Kind
from amp_migrate.model.values.tables import entries_of
from amp_migrate.torch_facts import ops
from amp_migrate.torch_facts.ops import EVERY, Kernels, Op, Spelling, Trait

if TYPE_CHECKING:
    from amp_migrate.model.program import Program
    from amp_migrate.model.tensors.inference import Inference

_DEEP = 3


def spelled(
    inference: Inference, call: ast.Call, scope: Scope
) -> Spelling | None:
    """The operator of torch that a call spells."""
    program = inference.program
    canonical = program.canonical(call.func)
    if canonical is not None:
        return ops.function(canonical) or ops.of_python(canonical)
    func = call.func
    if not isinstance(func, ast.Attribute):
        return kept_operator(program, func)
    found = ops.method(func.attr)
    if found is None and isinstance(func.value, ast.Name):
        return kept_operator(program, func)
    if found is None or program.values.callee(call, scope) is not None:
        return None
    held = inference.of(func.value, scope)
    value = program.values.of(func.value, scope)
    objects = (
        Kind.MODEL,
        Kind.OBJECT,
        Kind.CRITERION,
        Kind.OPTIMIZER,
        Kind.SCALER,
    )
    is_object = value.kind in objects or held.is_no_tensor
    return None if is_object or held.container else found


def kept_operator(program: Program, func: ast.expr) -> Spelling | None:
    """The operator that `convolve = F.conv2d`, or `getattr(F, f"conv{n}d")`, stands for, or what an
    object is given as `transform=torch.fft.fft2`; of several the one with the fewest kernels, where
    autocast treats them alike. Asked of each call of each loop, and found once.
    """
    return program.remembered(
        (kept_operator, func), lambda: _operator_kept(program, func)
    )


def _operator_kept(program: Program, func: ast.expr) -> Spelling | None:
    found = list(_kept(program, func, _DEEP))
    known = [one for one in found if one is not None]
    alike = len({one.policy for one in known}) == 1
    if not alike or len(known) < len(found):
        return None
    return min(known, key=lambda one: _served(one.op))


def _served(op: Op) -> tuple[bool, bool]:
    return Trait.FOURIER not in op.traits, Kernels.HALF in op.kernels


def _kept(
    program: Program, expr: ast.expr, deep: int
) -> Iterator[Spelling | None]:
    """Each operator that an expression may be; None for anything else."""
    named = list(_named(program, expr))
    if named or isinstance(expr, ast.Call) or deep == 0:
        yield from named
        if not named:
            yield None
        return
    if isinstance(expr, ast.Subscript):
        entries = _entries(program, expr)
        for entry in entries:
            yield from _kept(program, entry, deep - 1)
        yield from () if entries else [None]
        return
    dotted = dotted_name(expr)
    if dotted is None:
        yield None
        return
    bindings = program.reaching.at(expr, dotted).bindings
    for given in [one for b in bindings for one in _given(program, b)] or [
        None
    ]:
        yield from _kept(program, given, deep - 1) if given else [None]


def _entries(program: Program, entry: ast.Subscript) -> list[ast.expr]:
    """What `ACTIVATIONS[name]` may give: the entries of the keys that it may be, else all."""
    table = dotted_name(entry.value)
    scope = program.module.scope_of(entry)
    home = scope.lookup(table) if table is not None else None
    if home is None or table is None:
        return []
    keys = _texts(program, entry.slice)
    for one in home.bindings[table] if keys else ():
        if isinstance(one.value, ast.Dict):
            pairs = zip(one.value.keys, one.value.values, strict=True)
            found = [v for k, v in pairs if k is not None and _is_of(k, keys)]
            return found if len(home.bindings[table]) == 1 else []
    return list(entries_of(home, table))


def _is_of(key: ast.expr, texts: list[str]) -> bool:
    return isinstance(key, ast.Constant) and key.value in texts


def _given(program: Program, binding: Binding) -> list[ast.expr | None]:
    """What a name is set to; a parameter is given its default, or what callers in sight pass."""
    if binding.how == "assign" and binding.index is None:
        inside = binding.value in program.module.parents
        return [binding.value if inside else None]
    found = (
        parameter_of(program, binding) if binding.how == "parameter" else None
    )
    if found is None:
        return [None]
    function, _, name = found
    passed = [one for one, _ in arguments(program, binding)]
    default = default_of(function, name)
    return [*passed, *([default] if default is not None else [])] or [None]


def _named(program: Program, value: ast.expr) -> Iterator[Spelling]:
    if isinstance(value, ast.Call):
        module = module_searched(value)
        home = program.canonical(module) if module is not None else None
        for pattern in _searched(program, value) if home is not None else ():
            yield from ops.functions_matching(home or "", pattern)
    elif isinstance(value, (ast.Name, ast.Attribute)):
        found = ops.function(program.canonical(value))
        if found is not None:
            yield found


def _searched(program: Program, call: ast.Call) -> list[re.Pattern[str]]:
    """The names that `getattr(module, name)` may look up: what is written of one, or the texts
    that a variable or parameter is set to.
    """
    pattern = name_searched(call)
    if pattern is not None or len(call.args) < 2:
        return [pattern] if pattern is not None else []
    return [re.compile(re.escape(t)) for t in _texts(program, call.args[1])]


def _texts(program: Program, expr: ast.expr) -> list[str]:
    """The texts that a variable or parameter is set to, if it is set to nothing else."""
    if isinstance(expr, ast.Constant):
        return [expr.value] if isinstance(expr.value, str) else []
    dotted = dotted_name(expr)
    if dotted is None:
        return []
    bindings = program.reaching.at(expr, dotted).bindings
    given = [one for b in bindings for one in _given(program, b)]
    texts = [one.value for one in given if isinstance(one, ast.Constant)]
    known = [one for one in texts if isinstance(one, str)]
    return known if len(known) == len(given) else []


def operands(found: Spelling, call: ast.Call) -> list[ast.expr]:
    """The tensors that a call of an operator works on, the method's own first."""
    op = found.op
    given = given_to(found, call)
    if op.sequence:
        first = given[0] if given else None
        return (
            list(first.elts)
            if isinstance(first, (ast.List, ast.Tuple))
            else given[:1]
        )
    if op.tensors == EVERY:
        return [one for one in given if not isinstance(one, ast.Constant)]
    places = (0,) if op.result == "like" else op.tensors
    return [
        given[place]
        for place in places
        if isinstance(place, int) and place < len(given)
    ]


def given_to(found: Spelling, call: ast.Call) -> list[ast.expr]:
    """What a call is given by position, the method's own object first."""
    if not is_method(found, call):
        return list(call.args)
    assert isinstance(call.func, ast.Attribute)
    return [call.func.value, *call.args]


def is_method(found: Spelling, call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Attribute):
        return False
    root = call.func.value
    return found.form != "function" and not _is_module_path(root, call)


def _is_module_path(root: ast.expr, call: ast.Call) -> bool:
    """`torch.relu_(x)` is in place, and a function."""
    name = root.id if isinstance(root, ast.Name) else getattr(root, "attr", "")
    return bool(call.args) and name in ("torch", "functional", "F")


def operands_and_others(found: Spelling, call: ast.Call) -> list[ast.expr]:
    """All arguments in the order of the function form."""
    if not is_method(found, call):
        return list(call.args)
    assert isinstance(call.func, ast.Attribute)
    return [call.func.value, *call.args]


def names_its_type(call: ast.Call) -> bool:
    """`x.type()`, which is a string."""
    is_type = isinstance(call.func, ast.Attribute) and call.func.attr == "type"
    return is_type and not call.args and not call.keywords
