"""What parameters hold: what the callers in sight pass."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from amp_migrate.model.calls.arguments import argument, spread
from amp_migrate.model.forwards.first_layers import always_first, first_runs
from amp_migrate.model.forwards.losses import body_of, callables
from amp_migrate.model.forwards.model_runs import model_runs
from amp_migrate.model.syntax.module import FUNCTIONS, Binding, Function, Scope
from amp_migrate.model.tensors import lambdas
from amp_migrate.model.tensors.fact import (
    ANY_BUT_HALF,
    OTHER,
    UNKNOWN,
    DType,
    Fact,
    join,
)
from amp_migrate.model.values.call_values import is_accessor
from amp_migrate.torch_facts.methods import FORWARD_HOOKS

if TYPE_CHECKING:
    from amp_migrate.model.program import Program
    from amp_migrate.model.tensors.inference import Inference

_MOST = 30


def passed(inference: Inference, binding: Binding) -> Fact:
    """What a parameter may be; unknown where a caller is out of sight."""
    program = inference.program
    if _is_of_hook(program, binding):
        return Fact(DType.HALF | DType.UNKNOWN)
    found = parameter_of(program, binding)
    if found is None:
        return lambdas.given_to(inference, binding)
    function, scope, name = found
    if name == scope.self_name:
        return OTHER
    packed = function.args.vararg
    if packed is not None and packed.arg == name:
        return _packed(inference, function, scope)
    given = arguments(program, binding)
    is_inside = inference.inside(function.args)
    here = [one for one in given if inference.inside(one[0]) == is_inside]
    facts = [inference.of(expr, where) for expr, where in here or given]
    spreads = [
        (inference.of(whole, where).element(place), inference.inside(whole))
        for whole, place, where in spread_arguments(program, binding)
    ]
    facts += [one for one, inside in spreads if inside == is_inside or not here]
    default = _default(scope, name)
    if default is not None and not (
        isinstance(default, ast.Constant) and default.value is None
    ):
        facts.append(inference.of(default, scope))
    if not facts:
        if default is not None and _stays_none(program, function, scope, name):
            return OTHER
        # An entry point, or a method that a library calls.
        return UNKNOWN if is_inside else ANY_BUT_HALF
    # What runs it under autocast is out of sight where no caller in sight does.
    is_run = bool(here) or any(inside == is_inside for _, inside in spreads)
    is_open = is_inside and not is_run or _is_open(program, function)
    return join([*facts, Fact(DType.UNKNOWN)]) if is_open else join(facts)


def _stays_none(
    program: Program, function: Function, scope: Scope, name: str
) -> bool:
    """Whether a parameter that is None by default is passed by no call, and set nowhere."""
    calls = [call for call, _, _ in islice(_sites(program, function), _MOST)]
    if not calls or any(map(_spreads, calls)):
        return False
    return len(scope.bindings[name]) == 1 and not _is_open(program, function)


def _spreads(call: ast.Call) -> bool:
    """`f(*values)`, `f(**options)`"""
    return any(isinstance(one, ast.Starred) for one in call.args) or any(
        one.arg is None for one in call.keywords
    )


def _is_of_hook(program: Program, binding: Binding) -> bool:
    """`layer.register_forward_hook(keep)`: `keep` runs under the autocast of the forward. Asked of
    each caller of each loop, and found once, as where a parameter belongs.
    """
    return program.remembered(
        (_is_of_hook, binding), lambda: _hooks(program, binding)
    )


def _hooks(program: Program, binding: Binding) -> bool:
    node: ast.AST | None = binding.statement
    while node is not None and not isinstance(node, (*FUNCTIONS, ast.Lambda)):
        node = program.module.parents.get(node)
    named: list[ast.AST] = [node] if isinstance(node, ast.Lambda) else []
    if isinstance(node, FUNCTIONS):
        named += program.graph.mentions(node)
    above = (program.module.parents.get(one) for one in named)
    return any(
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in FORWARD_HOOKS
        for call in above
    )


def _is_open(program: Program, function: Function) -> bool:
    """Whether something out of sight may call a function as well: of a model that no call in
    sight is known to run, calls of that name are those of other models.
    """
    owner = program.scope(function).owner
    if function.name != "forward" or owner is None:
        return program.graph.escapes(function)
    assert isinstance(owner.node, ast.ClassDef)
    known = model_runs(program)
    return not any(
        one in known or always_first(program, one)
        for one in program.graph.heirs(owner.node)
    )


def _packed(inference: Inference, function: Function, scope: Scope) -> Fact:
    """`*args`: place by place what the callers pass behind the named parameters."""
    calls = list(islice(_sites(inference.program, function), _MOST))
    named = len(function.args.posonlyargs) + len(function.args.args)
    given = [
        (call.args[named - (1 if bound else 0) :], where)
        for call, where, bound in calls
    ]
    if not given or any(
        isinstance(a, ast.Starred) for args, _ in given for a in args
    ):
        return UNKNOWN
    facts = [[inference.of(a, where) for a in args] for args, where in given]
    whole = join(fact for one in facts for fact in one)
    is_even = len({len(one) for one in facts}) == 1
    elements = (
        tuple(join(one) for one in zip(*facts, strict=True)) if is_even else ()
    )
    return whole._replace(elements=elements, container=True, bounds=None)


def arguments(
    program: Program, binding: Binding
) -> list[tuple[ast.expr, Scope]]:
    """What the callers in sight pass for a parameter, with the scopes of the calls."""
    return [
        (expr, where)
        for expr, where in _arguments(program, binding)
        if expr is not None
    ]


def all_arguments(
    program: Program, binding: Binding
) -> list[tuple[ast.expr, Scope]]:
    """The same where each of them shows what it passes; else nothing."""
    found = arguments(program, binding)
    whole = _arguments(program, binding)
    return found if len(found) == len(whole) < _MOST else []


def spread_arguments(
    program: Program, binding: Binding
) -> list[tuple[ast.expr, int, Scope]]:
    """What the callers in sight spread for a parameter, `loss(x, *outputs)`; its place in it."""
    return program.remembered(
        (spread_arguments, binding), lambda: _spread_for(program, binding)
    )


def _spread_for(
    program: Program, binding: Binding
) -> list[tuple[ast.expr, int, Scope]]:
    found = parameter_of(program, binding)
    if found is None:
        return []
    function, scope, name = found
    sites = islice(_sites(program, function), _MOST)
    spreads = (
        (spread(call, scope, name, bound), where)
        for call, where, bound in sites
    )
    return [(*one, where) for one, where in spreads if one is not None]


def _arguments(
    program: Program, binding: Binding
) -> list[tuple[ast.expr | None, Scope]]:
    def given() -> list[tuple[ast.expr | None, Scope]]:
        found = parameter_of(program, binding)
        if found is None:
            return lambdas.arguments(program, binding)[:_MOST]
        function, scope, name = found
        return [
            (argument(call, scope, name, bound), where)
            for call, where, bound in islice(_sites(program, function), _MOST)
        ]

    return program.remembered((_arguments, binding), given)


def parameter_of(
    program: Program, binding: Binding
) -> tuple[Function, Scope, str] | None:
    """The function that a parameter belongs to, its scope, and the name."""
    return program.remembered(
        (parameter_of, binding), lambda: _owner_of(program, binding)
    )


def _owner_of(
    program: Program, binding: Binding
) -> tuple[Function, Scope, str] | None:
    function = _function_of(program, binding)
    if function is None:
        return None
    scope = program.scope(function)
    named = (
        n
        for n, held in scope.bindings.items()
        if any(b is binding for b in held)
    )
    name = next(named, None)
    return None if name is None else (function, scope, name)


def _function_of(program: Program, binding: Binding) -> Function | None:
    node: ast.AST | None = binding.statement
    while node is not None and not isinstance(node, FUNCTIONS):
        node = program.module.parents.get(node)
    return node


def _sites(
    program: Program, function: Function
) -> Iterator[tuple[ast.Call, Scope, bool]]:
    if is_accessor(function):
        return  # what is called by its name is what it gives
    is_run = function.name in ("forward", "__call__")
    for site in program.graph.runs(function):
        if not is_run or _calls_forward(
            program, site.call, site.scope, function
        ):
            yield site.call, site.scope, site.bound
    owner = program.scope(function).owner
    if function.name == "__init__" and owner is not None:
        assert isinstance(owner.node, ast.ClassDef)
        yield from program.graph.constructors.of(function, owner.node)
    if is_run and owner is not None:
        assert isinstance(owner.node, ast.ClassDef)
        for cls in program.graph.heirs(owner.node):
            if program.graph.method(cls, function.name) is function:
                runs = model_runs(program).get(cls, ())
                yield from ((call, scope, True) for call, scope in runs)
                firsts = first_runs(program).get(cls, ())
                yield from ((call, scope, True) for call, scope in firsts)


def _calls_forward(
    program: Program, call: ast.Call, scope: Scope, function: Function
) -> bool:
    """`model.forward(x)` of what may be such a model; not `super().forward(x)` of another class."""
    func = call.func
    if not isinstance(func, ast.Attribute) or isinstance(func.value, ast.Call):
        return False
    run = [body_of(one) for one in callables(program, call, scope)]
    return not run or None in run or function in run


def _default(scope: Scope, name: str) -> ast.expr | None:
    if not isinstance(scope.node, FUNCTIONS):
        return None
    arguments = scope.node.args
    places = [*arguments.posonlyargs, *arguments.args]
    for arg, default in zip(
        reversed(places), reversed(arguments.defaults), strict=False
    ):
        if arg.arg == name:
            return default
    for arg, keyword in zip(
        arguments.kwonlyargs, arguments.kw_defaults, strict=True
    ):
        if arg.arg == name:
            return keyword
    return None
