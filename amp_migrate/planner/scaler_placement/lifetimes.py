"""How long the object lives that a scaler would be an attribute of, and how long its optimizer."""

from __future__ import annotations

import ast

from amp_migrate.model.arguments import argument
from amp_migrate.model.leaves import is_leaf
from amp_migrate.model.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.queries import names_in
from amp_migrate.model.syntax import LOOPS, Binding, Scope
from amp_migrate.planner.refusal import Refusal, place_of
from amp_migrate.planner.scaler_placement.epochs import Epochs


def refuse_short_lived(
    program: Program, epochs: Epochs, cls: ast.ClassDef, made: list[Binding]
) -> None:
    """Refuse a scaler in an object that a loop makes anew, around an optimizer that was made before
    the loop: its scale would begin anew, too.
    """
    for binding in made:
        inner = program.module.scope_of(binding.statement)
        name = dotted_name(binding.value) if binding.value is not None else None
        given = inner.bindings.get(name or "", ())
        if any(one.how == "parameter" for one in given) and name is not None:
            for call, scope in program.graph.constructions(cls):
                optimizer = argument(call, inner, name, bound=True)
                loop = _loop_around(epochs, call, scope)
                if loop is not None and _outlives(
                    program, optimizer, scope, loop
                ):
                    raise _refusal(program, cls, call, loop)


def _loop_around(
    epochs: Epochs, call: ast.Call, scope: Scope
) -> ast.stmt | None:
    around = epochs.within(call, scope.node)
    return next(
        (one for one in around if isinstance(one, LOOPS)),
        None,
    )


def _outlives(
    program: Program, optimizer: ast.expr | None, scope: Scope, loop: ast.stmt
) -> bool:
    """Whether an optimizer that is handed over in a loop was made before it."""
    name = dotted_name(optimizer) if optimizer is not None else None
    if name is None:
        return False
    home = scope.lookup(name.partition(".")[0])
    bindings = home.bindings.get(name, ()) if home is not None else ()
    return not any(
        one is loop
        for binding in bindings
        for one in program.module.ancestors(binding.statement)
    )


def _refusal(
    program: Program, cls: ast.ClassDef, call: ast.Call, loop: ast.stmt
) -> Refusal:
    return Refusal(
        "scaler-created-per-epoch",
        call,
        f"`{cls.name}` is made anew in each turn of the loop at {place_of(program, loop)}, and a "
        "scaler in it would lose what it learned: make the object once, before the loop",
    )


def refuse_fitting(program: Program, home: Scope, made: list[Binding]) -> None:
    """Refuse a scaler in a method that fits copies of what it is handed: with each call it would
    begin anew, and skip the first of a few steps.
    """
    for binding in made if home.self_name is not None else ():
        call = binding.value
        if not isinstance(call, ast.Call) or not call.args:
            continue
        trained = _displayed(program, call.args[0])
        if trained and all(_is_copy(program, one, home) for one in trained):
            names = ", ".join(f"`{ast.unparse(one)}`" for one in trained)
            raise Refusal(
                "unsupported-shape",
                call,
                f"`{home.qualname}` fits {names}, copies of what each call hands it, with an "
                "optimizer of that call: a scaler made beside it would begin with its first scale "
                "each time, and skip steps of a short fitting until that fits",
            )


def _displayed(program: Program, expr: ast.expr) -> list[ast.expr]:
    """The elements of a list, as it is written or under a name."""
    if isinstance(expr, (ast.List, ast.Tuple)):
        return expr.elts
    name = dotted_name(expr)
    bindings = program.reaching.at(expr, name).bindings if name else ()
    values = [one.value for one in bindings]
    if len(values) == 1 and isinstance(values[0], (ast.List, ast.Tuple)):
        return values[0].elts
    return []


def _is_copy(program: Program, expr: ast.expr, home: Scope) -> bool:
    """Whether a name holds a leaf that was made of a parameter of the function."""
    if not isinstance(expr, ast.Name) or not is_leaf(program, expr):
        return False
    given = {one.arg for one in home.parameters()} - {home.self_name}
    bindings = program.reaching.at(expr, expr.id).bindings
    return bool(bindings) and all(
        one.value is not None and given & set(names_in(one.value))
        for one in bindings
    )
