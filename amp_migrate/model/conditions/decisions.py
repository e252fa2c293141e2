"""What decides whether code runs and which value a name gets: the variables behind conditions."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.autocast.dtype_choices import property_values
from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import (
    FUNCTIONS,
    Function,
    Scope,
    returned,
    shallow,
)
from amp_migrate.model.values.unpacked import values_given
from amp_migrate.torch_facts import amp_api

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

Asked = tuple[ast.expr, Scope]
"""An expression and the scope that evaluates it."""
Variable = tuple[Scope | None, str]
_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def conditions_of(program: Program, node: ast.AST) -> list[Asked]:
    """The conditions that are asked before `node` runs: around it in its function, and around what
    makes the object, where that is a constructor.
    """
    scope = program.module.scope_of(node)
    found = [(test, scope) for test in _around(program, node)]
    function = scope.node
    if (
        isinstance(function, FUNCTIONS)
        and function.name == "__init__"
        and scope.owner is not None
    ):
        assert isinstance(scope.owner.node, ast.ClassDef)
        for call, caller in program.graph.constructions(scope.owner.node):
            found += [(test, caller) for test in _around(program, call)]
    return found


def share_a_cause(
    program: Program,
    first: Iterable[Asked],
    second: Iterable[Asked],
    apart: Asked | None = None,
) -> bool:
    """Whether one variable has a say in expressions of both groups; `apart` from the say of one
    variable in the second.
    """
    left_out = _variable(program, *apart) if apart is not None else None
    ours = _causes(program, first)
    theirs = _causes(program, second, left_out)
    return any(
        home is other
        and (name == word or _is_part(name, word) or _is_part(word, name))
        for home, name in ours
        for other, word in theirs
    )


def is_decided_by(program: Program, expr: Asked, by: Asked) -> bool:
    """Whether the variable that one expression names has a say in the other."""
    variable = _variable(program, *by)
    return variable is not None and variable in _causes(program, [expr])


def is_one_variable(program: Program, first: Asked, second: Asked) -> bool:
    """Whether two expressions read the same variable, and nothing else, be it under the name of a
    parameter or of an attribute that keeps it.
    """
    ours, theirs = _variable(program, *first), _variable(program, *second)
    if ours is None or theirs is None:
        return False
    return ours == theirs or _origin(program, ours) == _origin(program, theirs)


def _origin(program: Program, variable: Variable, hops: int = 4) -> Variable:
    """The variable that every caller gives a parameter, or that an attribute is bound to once."""
    home, name = variable
    head, _, rest = name.removeprefix("self.").partition(".")
    if home is None or not hops:
        return variable
    is_kept = name.startswith("self.")
    held = home.bindings.get(f"self.{head}" if is_kept else head, ())
    given: list[Asked] = []
    if is_kept and len(held) == 1 and held[0].value is not None:
        given = [(held[0].value, program.module.scope_of(held[0].value))]
    elif [one.how for one in held] == ["parameter"]:
        given = list(_passed(program, home, head))
    found = {_variable(program, *one) for one in given}
    if len(found) != 1 or None in found:
        return variable
    (one,) = found
    assert one is not None
    where, whole = one
    return _origin(
        program, (where, f"{whole}.{rest}" if rest else whole), hops - 1
    )


def grounds(program: Program, expr: ast.expr, scope: Scope) -> list[Asked]:
    """What makes an expression true: itself or, of a variable, what is assigned to it and under
    which conditions; an assignment of False makes nothing true.
    """
    variable = _variable(program, expr, scope)
    home, name = variable if variable is not None else (None, "")
    held = home.bindings.get(name, []) if home is not None else []
    values = [b for b in held if b.how == "assign" and b.value is not None]
    if not values or len(values) < len(held):
        return [(expr, scope)]
    found: list[Asked] = []
    for one in values:
        assert one.value is not None
        if isinstance(one.value, ast.Constant) and not one.value.value:
            continue
        where = program.module.scope_of(one.statement)
        found.append((one.value, where))
        found += [(t, where) for t in _around(program, one.statement)]
    return found


def _is_part(name: str, whole: str) -> bool:
    """`args.cuda` is a part of `args`."""
    return name.startswith(f"{whole}.")


def _around(program: Program, node: ast.AST) -> Iterator[ast.expr]:
    """The tests on the way from the head of the function to `node`."""
    inner = node
    for above in program.module.ancestors(node):
        if (
            isinstance(above, (ast.If, ast.IfExp, ast.While))
            and inner is not above.test
        ):
            yield above.test
        elif isinstance(above, ast.Match):
            yield above.subject
        if isinstance(inner, ast.stmt) and inner in program.module.block_lists:
            yield from _guards(program, inner)
        if isinstance(above, (*FUNCTIONS, ast.Lambda, ast.ClassDef)):
            return
        inner = above


def _guards(program: Program, statement: ast.stmt) -> Iterator[ast.expr]:
    """The tests of the statements before this one that may leave the block."""
    for before in program.module.block_of(statement):
        if before is statement:
            return
        if isinstance(before, ast.If) and any(
            isinstance(n, _LEAVES) for n in shallow(before)
        ):
            yield before.test


def _causes(
    program: Program, asked: Iterable[Asked], left_out: Variable | None = None
) -> set[Variable]:
    """The variables that expressions read, and those that decide what these hold."""
    found: set[Variable] = set()
    functions: set[Function] = set()
    wanted = list(asked)
    while wanted:
        expr, scope = wanted.pop()
        for node in shallow(expr):
            if isinstance(node, ast.Call):
                callee = program.values.callee(node, scope)
                if callee is not None and callee not in functions:
                    functions.add(callee)
                    wanted += _returned(program, callee)
            elif isinstance(node, ast.Attribute):
                for _, where in property_values(program, node, scope) or ():
                    if where.node not in functions and isinstance(
                        where.node, FUNCTIONS
                    ):
                        functions.add(where.node)
                        wanted += _returned(program, where.node)
            variable = _variable(program, node, scope)
            if variable not in {None, left_out, *found}:
                assert variable is not None
                found.add(variable)
                wanted += _given(program, variable)
    return found


def _returned(program: Program, function: Function) -> Iterator[Asked]:
    scope = program.module.scopes[function]
    for value in returned(function):
        yield value, scope
        yield from ((test, scope) for test in _around(program, value))


def _variable(program: Program, node: ast.AST, scope: Scope) -> Variable | None:
    """The variable that a name, or the longest chain of attributes, stands for; of a method's
    call, the object. Types of torch are none, nor what tells whether the file is run.
    """
    if not isinstance(node, (ast.Name, ast.Attribute)):
        return None
    above = program.module.parents.get(node)
    if isinstance(above, ast.Attribute):
        called = program.module.parents.get(above)
        if not (isinstance(called, ast.Call) and called.func is above):
            return None
    name, canonical = dotted_name(node), program.canonical(node)
    if (
        name is None
        or canonical in amp_api.HALVES
        or canonical in amp_api.FLOATS
        or name == "__name__"
    ):
        return None
    if (
        isinstance(above, ast.Call)
        and above.func is node
        and isinstance(node, ast.Attribute)
    ):
        return None
    head, _, rest = name.partition(".")
    cls = (
        program.graph.class_around(scope)
        if head == scope.self_name and rest
        else None
    )
    if cls is not None:
        return _keeper(program, cls, rest), f"self.{rest}"
    home = scope.lookup(head)
    return _handed_back(program, name, home) or (home, canonical or name)


def _handed_back(
    program: Program, name: str, home: Scope | None
) -> Variable | None:
    """The variable of another function that a name is given once, out of a tuple."""
    held = home.bindings.get(name, ()) if home is not None else ()
    if home is None or len(held) != 1 or held[0].index is None:
        return None
    given = values_given(program, held[0], home)
    if given is None or len(given) != 1 or given[0][1] is home:
        return None
    return _variable(program, *given[0])


def _keeper(program: Program, cls: ast.ClassDef, dotted: str) -> Scope:
    """The scope of the class, of this one and its bases, that sets an attribute first."""
    name = f"self.{dotted.partition('.')[0]}"
    homes = [program.module.scopes[one] for one in program.graph.lineage(cls)]
    holding = [one for one in homes if name in one.bindings]
    return (holding or homes[:1])[-1]


def _given(program: Program, variable: Variable) -> Iterator[Asked]:
    """What is assigned to a variable, and the conditions of each assignment."""
    home, name = variable
    for binding in home.bindings.get(name, ()) if home is not None else ():
        if binding.how == "parameter" and home is not None:
            yield from _passed(program, home, name)
        if binding.statement not in program.module.parents:
            continue
        scope = program.module.scope_of(binding.statement)
        if binding.value is not None:
            yield binding.value, scope
        if binding.how != "parameter":
            yield from (
                (test, scope) for test in _around(program, binding.statement)
            )


def _passed(program: Program, home: Scope, name: str) -> Iterator[Asked]:
    """What callers pass for a parameter."""
    for site in (
        program.graph.sites(home.node)
        if isinstance(home.node, FUNCTIONS)
        else ()
    ):
        given = argument(site.call, home, name, site.bound)
        if given is not None:
            yield given, site.scope
