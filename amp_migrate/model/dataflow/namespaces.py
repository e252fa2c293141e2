"""Objects whose attributes are what their maker is given by name: `SimpleNamespace(amp=False)`, and
classes whose constructor keeps all its keywords: `self.__dict__.update(settings)`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.calls.call_graph import CallGraph
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import FUNCTIONS, Binding, Scope

_OF_LIBRARIES = frozenset(
    (
        "types.SimpleNamespace",
        "argparse.Namespace",
        "easydict.EasyDict",
        "attrdict.AttrDict",
        "munch.Munch",
        "addict.Dict",
    )
)


def given_by_name(
    graph: CallGraph, call: ast.Call, scope: Scope, name: str
) -> Binding | None:
    """What gives the attribute `name` to such an object that `call` makes."""
    given = [one for one in call.keywords if one.arg == name]
    if not given or not _keeps_keywords(graph, call.func, scope, name):
        return None
    statement = graph.module.statement_of(call)
    return Binding(statement, given[0].value, "assign")


def _keeps_keywords(
    graph: CallGraph, maker: ast.expr, scope: Scope, name: str
) -> bool:
    if graph.module.canonical(maker) in _OF_LIBRARIES:
        return True
    cls = graph.class_named(maker, scope)
    made = graph.method(cls, "__init__") if cls is not None else None
    if not isinstance(made, FUNCTIONS) or made.args.kwarg is None:
        return False
    own = graph.module.scopes[made]
    if any(one.arg == name for one in own.parameters()):
        return False
    return any(_keeps(one, own, made.args.kwarg.arg) for one in made.body)


def _keeps(statement: ast.stmt, scope: Scope, keywords: str) -> bool:
    """`self.__dict__.update(settings)`, `self.__dict__ = settings`, or `setattr` of each."""
    whole = f"{scope.self_name}.__dict__"
    if isinstance(statement, ast.Assign):
        kept = dotted_name(statement.value) == keywords
        return kept and any(dotted_name(t) == whole for t in statement.targets)
    if isinstance(statement, ast.For):
        over = ast.unparse(statement.iter) == f"{keywords}.items()"
        return over and any(_sets_each(statement, scope))
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(
        call.func, ast.Attribute
    ):
        return False
    holders = (whole, f"vars({scope.self_name})")
    given = [*call.args, *(one.value for one in call.keywords if not one.arg)]
    return (
        call.func.attr == "update"
        and ast.unparse(call.func.value) in holders
        and any(dotted_name(one) == keywords for one in given)
    )


def _sets_each(loop: ast.For, scope: Scope) -> Iterator[bool]:
    """`setattr(self, name, value)` of the names that the loop goes through."""
    names = loop.target.elts if isinstance(loop.target, ast.Tuple) else []
    wanted = [scope.self_name, *map(dotted_name, names)]
    for statement in loop.body:
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and dotted_name(call.func) == "setattr":
            yield [dotted_name(one) for one in call.args] == wanted
