"""Models, or whole programs, that are not float32 to begin with: what stands on the way to the loop
decides, not an inference function beside it.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import FUNCTIONS, Scope, returned
from amp_migrate.model.syntax.queries import names_in
from amp_migrate.model.values.kinds import Kind
from amp_migrate.planner.files.vicinity import callers_of_scope, files_near
from amp_migrate.planner.preconditions.other_models import is_another
from amp_migrate.planner.refusal import Refusal
from amp_migrate.torch_facts.amp_api import DOUBLES, HALVES, SETS_DTYPE

_HALF = {"half", "bfloat16", "double"}
_HALF_DTYPES = {*HALVES, *DOUBLES}
_OTHER_TYPE = re.compile(r"\b(Double|Half|BFloat16)Tensor\b")
_TRAINS = EventKind.BACKWARD | EventKind.STEP
_MENTIONED = re.compile("(?i)half|double|float16|float64")
_NETWORK = re.compile(
    r"(?i)^(model|net|network|generator|discriminator|encoder|decoder|backbone)(_?[a-z0-9])?$"
)


def refuse_half(program: Program, scope: Scope) -> None:
    """Raise Refusal where the model that a loop trains is made or turned into another dtype."""
    if not program.remembered(
        _MENTIONED, lambda: _MENTIONED.search(program.module.text)
    ):
        return
    for where in _on_the_way(program, scope):
        found = program.remembered(
            (refuse_half, where), functools.partial(_half, program, where)
        )
        if found is not None:
            raise Refusal("already-half", *found)


def _half(program: Program, scope: Scope) -> tuple[ast.Call, str] | None:
    """The first call of a scope that makes a model, or all of them, another dtype, and why."""
    for call in scope.calls:
        if _sets_default(program, call):
            where = under_option(program, call)
            return (
                call,
                f"`{ast.unparse(call)}`{where}: the default dtype is not float32",
            )
        if _makes_half(program, call, scope) and not _turned_back(
            program, call, scope
        ):
            verb = "makes" if _is_told(program, call) else "may make"
            return call, (
                f"`{ast.unparse(call.func)}` {verb} the model another dtype"
                f"{under_option(program, call)}: GradScaler and autocast are for float32 parameters"
            )
    return None


def under_option(program: Program, call: ast.AST) -> str:
    """The option that a conversion depends on: without it the loop is like any other."""
    inner: ast.AST = call
    for around in program.module.ancestors(call):
        if isinstance(around, FUNCTIONS):
            break
        if isinstance(around, ast.If) and "__name__" not in names_in(
            around.test
        ):
            if any(inner is one for one in around.body):
                test = ast.unparse(around.test)
                return f" where `{test}` holds (take that option out, then run again)"
        inner = around
    return ""


def _sets_default(program: Program, call: ast.Call) -> bool:
    """Whether the models that are made from here on are not float32. Autocast leaves float64 as it
    is, and a `.float()` would narrow it.
    """
    if program.canonical(call.func) not in SETS_DTYPE or not call.args:
        return False
    return any(
        program.canonical(one) in _HALF_DTYPES
        or _OTHER_TYPE.search(ast.unparse(one))
        for one in _choices(program, call.args[0])
    )


def _choices(program: Program, expr: ast.expr) -> Iterator[ast.expr]:
    """An expression, each arm of a choice, each entry of a table that is looked up, and what its
    name was given.
    """
    if isinstance(expr, ast.IfExp):
        yield from (expr.body, expr.orelse)
        return
    yield expr
    if isinstance(expr, ast.Subscript):
        yield from _entries(program, expr.value)
    for value in values_given(program, expr):
        yield value
        if isinstance(value, ast.IfExp):
            yield from (value.body, value.orelse)
        elif isinstance(value, ast.Subscript):
            yield from _entries(program, value.value)


def _entries(program: Program, table: ast.expr) -> Iterator[ast.expr]:
    """What stands in a display of a dictionary, or in one that a name holds."""
    if isinstance(table, ast.Dict):
        yield from table.values
    for one in values_given(program, table):
        if isinstance(one, ast.Dict):
            yield from one.values


def values_given(program: Program, expr: ast.expr) -> Iterator[ast.expr]:
    """What the name was given."""
    name = dotted_name(expr)
    if name is None:
        return
    reach = program.reaching.at(expr, name)
    for binding in reach.bindings:
        value = binding.value
        if value is not None and binding.how == "assign":
            yield value


def _on_the_way(program: Program, scope: Scope) -> Iterator[Scope]:
    """The loop's scope, those that lead to it, the files' own, and those that make a
    model there.
    """
    leading = [
        program.module.scopes[node] for node in callers_of_scope(program, scope)
    ]
    files = [file.root for file in files_near(program, scope)]
    makers = [m for one in [*leading, *files] for m in _makers(program, one)]
    methods = [m for one in leading for m in _setters(program, one)]
    yield from {
        id(one): one for one in [*leading, *files, *makers, *methods]
    }.values()


def _makers(program: Program, scope: Scope) -> Iterator[Scope]:
    """Functions that are called in a scope and return a model."""
    for call in scope.calls:
        function = program.values.callee(call, scope)
        if function is not None and returned(function):
            if program.values.kind(call, scope) is Kind.MODEL:
                yield program.scope(function)


def _setters(program: Program, scope: Scope) -> Iterator[Scope]:
    """Methods of the loop's class that set its models."""
    cls = program.graph.class_around(scope)
    for owner in program.graph.lineage(cls) if cls is not None else ():
        for name, bindings in program.module.scopes[owner].bindings.items():
            for binding in bindings if name.startswith("self.") else ():
                if binding.statement in program.module.parents:
                    method = program.module.scope_of(binding.statement)
                    if isinstance(method.node, FUNCTIONS):
                        yield method


def _turned_back(program: Program, call: ast.Call, scope: Scope) -> bool:
    """`model.half().float()`; `model.half()`, and `model.float()` further down."""
    above = program.module.parents[call]
    if isinstance(above, ast.Attribute) and above.attr == "float":
        return True
    assert isinstance(call.func, ast.Attribute)
    model = dotted_name(call.func.value)
    return model is not None and any(
        isinstance(later.func, ast.Attribute)
        and later.func.attr == "float"
        and dotted_name(later.func.value) == model
        and later.lineno > call.lineno
        and _always_after(program, later, call)
        for later in scope.calls
    )


def _always_after(program: Program, later: ast.Call, call: ast.Call) -> bool:
    """Whether a statement follows in a block around another one, and nothing trains in between."""
    statement = program.module.statement_of(later)
    block = program.module.block_of(statement)
    around = {id(call), *(id(a) for a in program.module.ancestors(call))}
    first = next((i for i, one in enumerate(block) if id(one) in around), None)
    if first is None:
        return False
    scope = program.module.scope_of(statement)
    return not any(
        program.effects.of_statement(one, scope) & _TRAINS
        for one in block[first + 1 : block.index(statement)]
    )


def _makes_half(program: Program, call: ast.Call, scope: Scope) -> bool:
    func = call.func
    if (
        not isinstance(func, ast.Attribute)
        or program.canonical(func) is not None
    ):
        return False
    if func.attr in _HALF and not call.args:
        if is_another(program, call, func.value, scope):
            return False
        name = (dotted_name(func.value) or "").rpartition(".")[2]
        return program.values.is_model(func.value, scope) or bool(
            _NETWORK.search(name)
        )
    if func.attr == "to" and any(
        program.canonical(one) in _HALF_DTYPES
        for each in _arguments(call)
        for one in _choices(program, each)
    ):
        if is_another(program, call, func.value, scope):
            return False
        return program.values.is_model(func.value, scope)
    return func.attr == "from_pretrained" and any(
        k.arg in ("torch_dtype", "dtype")
        and program.canonical(k.value) in _HALF_DTYPES
        for k in call.keywords
    )


def _arguments(call: ast.Call) -> list[ast.expr]:
    """What may be the dtype that a call makes a model."""
    found = list(call.args)
    for keyword in call.keywords:
        if keyword.arg in ("dtype", "torch_dtype"):
            found.append(keyword.value)
    return found


def _is_told(program: Program, call: ast.Call) -> bool:
    """Whether the call itself names the dtype, or is a method of that name."""
    given = _arguments(call)
    if not given:
        return True
    names = map(program.canonical, given)
    return any(one in _HALF_DTYPES for one in names)
