"""How long the object lives that a scaler would be an attribute of, and how long its optimizer."""

from __future__ import annotations

import ast

from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.gradients.leaves import is_leaf
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import LOOPS, Binding, Scope
from amp_migrate.model.syntax.queries import names_in
from amp_migrate.planner.refusal import Refusal, place_of
from amp_migrate.planner.scaler_placement.epochs import Epochs


def check_lifetimes(
    program: Program,
    epochs: Epochs,
    cls: ast.ClassDef,
    made: list[Binding],
    scope: Scope,
) -> None:
    """Refuse a scaler that would not live as long as what its optimizer, an attribute that a body
    of the class steps, has learned.
    """
    for heir in program.graph.heirs(cls):
        _refuse_short_lived(program, epochs, heir, made)
    _refuse_resumed(program, made, scope)


def _refuse_short_lived(
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


def _refuse_resumed(
    program: Program, made: list[Binding], scope: Scope
) -> None:
    """Refuse a scaler beside an optimizer that each call of `scope` makes anew and gives the state
    of the last one: its own state would not go with it.
    """
    for binding in made:
        maker = program.module.scope_of(binding.statement)
        name = _attribute_of(binding)
        called = any(
            program.values.callee(call, scope) is maker.node
            for call in scope.calls
        )
        kept = _loaded(maker, name) if called or maker is scope else None
        if kept is not None and _is_state(program, kept, name, scope):
            raise Refusal(
                "scaler-created-per-epoch",
                binding.statement,
                f"`{scope.qualname}` makes `{name}` anew with each call and gives it the state of "
                "the last one, while a scaler made beside it would lose what it learned: make "
                "the optimizer once",
            )


def _attribute_of(binding: Binding) -> str:
    """`self.optimizer` of the statement that sets it."""
    statement = binding.statement
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    return (dotted_name(target) if target is not None else None) or ""


def _loaded(maker: Scope, name: str) -> str | None:
    """`self.state` of `self.optimizer.load_state_dict(self.state)`."""
    given = (
        dotted_name(call.args[0])
        for call in maker.calls
        if dotted_name(call.func) == f"{name}.load_state_dict" and call.args
    )
    return next((one for one in given if one is not None), None)


def _is_state(program: Program, kept: str, name: str, scope: Scope) -> bool:
    """Whether a body sets an attribute to the state of an optimizer."""
    cls = program.graph.class_around(scope)
    bindings = program.module.scopes[cls].bindings if cls is not None else {}
    return any(
        isinstance(one.value, ast.Call)
        and dotted_name(one.value.func) == f"{name}.state_dict"
        and program.module.scope_of(one.statement) is scope
        for one in bindings.get(kept, ())
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
