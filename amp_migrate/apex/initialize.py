"""`amp.initialize`: what it hands back, what switched it on, and what its settings become."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.naming.uses import argument_of
from amp_migrate.model.syntax.module import FUNCTIONS, Module, Scope
from amp_migrate.model.syntax.queries import nodes_in

_ORDER = {"models": 0, "optimizers": 1, "enabled": 2, "opt_level": 3}
_CHANGES = {
    "O2": "opt_level O2 kept the weights in half, with float32 copies in the optimizer, "
    "and batch norm in float32; with torch.amp the weights are float32 and only the "
    "operations run in half, so checkpoints hold float32 weights",
    "O3": "opt_level O3 ran everything in half, without loss scaling to speak of; torch.amp "
    "keeps float32 weights and runs in float32 what needs it, which trains more stably and "
    "takes more memory",
}
_SETTINGS = {
    "keep_batchnorm_fp32": "autocast chooses the precision of batch norm itself",
    "cast_model_type": "autocast chooses the precision of each operation",
    "cast_model_outputs": "outputs have the precision that autocast gives them; add `.float()` "
    "where float32 is needed",
    "patch_torch_functions": "autocast replaces the patched functions",
    "master_weights": "the weights are float32",
    "min_loss_scale": "GradScaler has no lower bound for the scale",
    "max_loss_scale": "GradScaler has no upper bound for the scale",
}


@dataclass(frozen=True, eq=False)
class Initialize:
    """One call."""

    call: ast.Call

    @property
    def given(self) -> ast.expr | None:
        """What it hands back: the models, or a pair with the optimizers; None where it cannot be
        told.
        """
        models, optimizers = (
            self.argument("models"),
            self.argument("optimizers"),
        )
        if models is None or any(k.arg is None for k in self.call.keywords):
            return None
        if optimizers is None or (
            isinstance(optimizers, ast.Constant) and optimizers.value is None
        ):
            return models
        return ast.Tuple([models, optimizers], ast.Load())

    @property
    def trains(self) -> bool:
        """Whether an optimizer is given, without which apex scales no loss."""
        given = self.argument("optimizers")
        if given is None:
            spread = any(isinstance(one, ast.Starred) for one in self.call.args)
            return spread or any(k.arg is None for k in self.call.keywords)
        return not (isinstance(given, ast.Constant) and given.value is None)

    @property
    def level(self) -> ast.expr:
        """The opt_level, O1 where it is not given."""
        return self.argument("opt_level") or ast.Constant("O1")

    @property
    def is_off(self) -> bool:
        """Whether the level is the literal O0, which is plain float32."""
        return isinstance(self.level, ast.Constant) and (
            self.level.value == "O0"
        )

    def argument(
        self,
        name: str,
    ) -> ast.expr | None:
        """An argument by name or position."""
        return argument_of(self.call, _ORDER.get(name, 99), name)

    def notes(self) -> Iterator[str]:
        """What the settings change."""
        level = self.level
        if isinstance(level, ast.Constant):
            if level.value in _CHANGES:
                yield _CHANGES[level.value]
        else:
            yield (
                "the opt_level is chosen when the program runs: every level but O0 now means "
                "torch.amp, as O1 did"
            )
        scale = self.argument("loss_scale")
        if scale is not None and not (
            isinstance(scale, ast.Constant) and scale.value in ("dynamic", None)
        ):
            text = ast.unparse(scale)
            start = (
                text if isinstance(scale, ast.Constant) else f"float({text})"
            )
            yield (
                f"loss_scale={text} is now dynamic, as GradScaler's is; `init_scale={start}` "
                "would start it there"
            )
        losses = self.argument("num_losses")
        if losses is not None and not (
            isinstance(losses, ast.Constant) and losses.value == 1
        ):
            yield (
                "the losses had a loss scale each; they share one GradScaler now, which "
                "PyTorch recommends"
            )
        for name, why in _SETTINGS.items():
            value = self.argument(name)
            if value is not None and not (
                isinstance(value, ast.Constant) and value.value is None
            ):
                yield f"{name}={ast.unparse(value)} has no counterpart in torch.amp: {why}"


def assigned(
    targets: list[ast.expr], value: ast.expr
) -> list[tuple[ast.expr, ast.expr]] | None:
    """The pairs of an unpacking that are not what they were before; None where they do
    not match.
    """
    if len(targets) != 1:
        return [(target, value) for target in targets]
    target = targets[0]
    if isinstance(target, (ast.Tuple, ast.List)) and isinstance(
        value, (ast.Tuple, ast.List)
    ):
        if len(target.elts) != len(value.elts) or any(
            isinstance(e, ast.Starred) for e in [*target.elts, *value.elts]
        ):
            return None
        found: list[tuple[ast.expr, ast.expr]] = []
        for one, other in zip(target.elts, value.elts, strict=True):
            pairs = assigned([one], other)
            if pairs is None:
                return None
            found += pairs
        return found
    return (
        [] if ast.unparse(target) == ast.unparse(value) else [(target, value)]
    )


def level_switch(
    module: Module, expr: ast.expr, scope: Scope, depth: int = 0
) -> list[str]:
    """Texts that are true where `expr`, an opt_level, is not O0; the nearest definition first.
    Empty: always.
    """
    if isinstance(expr, ast.Constant):
        return []
    if isinstance(expr, ast.IfExp):
        values = [
            e.value if isinstance(e, ast.Constant) else None
            for e in (expr.body, expr.orelse)
        ]
        if values[1] == "O0" and values[0] not in (None, "O0"):
            return condition(module, expr.test, scope, depth)
        if values[0] == "O0" and values[1] not in (None, "O0"):
            return [f"not {tight(expr.test)}"]
    own = f'{tight(expr)} != "O0"'
    value = _definition(module, expr, scope)
    return (
        [own, *level_switch(module, value, scope, depth + 1)]
        if value is not None and depth < 4
        else [own]
    )


def condition(
    module: Module, expr: ast.expr, scope: Scope, depth: int = 0
) -> list[str]:
    """Texts that mean the condition `expr`: itself, and where it is a name, what that
    stands for.
    """
    value = _definition(module, expr, scope) if depth < 4 else None
    return [
        ast.unparse(expr),
        *(
            condition(module, value, scope, depth + 1)
            if value is not None
            else []
        ),
    ]


def _definition(
    module: Module, expr: ast.expr, scope: Scope
) -> ast.expr | None:
    home = scope.lookup(expr.id) if isinstance(expr, ast.Name) else None
    if (
        home is None
        or not isinstance(expr, ast.Name)
        or len(home.bindings[expr.id]) != 1
    ):
        return None
    binding = home.bindings[expr.id][0]
    plain = (
        binding.how == "assign"
        and binding.index is None
        and binding.value is not None
    )
    return binding.value if plain and _repeatable(binding.value) else None


def _repeatable(expr: ast.expr | None) -> bool:
    """Whether it gives the same value wherever it is evaluated: names, attributes, comparisons."""
    plain = (
        ast.Name,
        ast.Attribute,
        ast.Constant,
        ast.BoolOp,
        ast.UnaryOp,
        ast.Compare,
        ast.IfExp,
    )
    skipped = (ast.expr_context, ast.boolop, ast.unaryop, ast.cmpop)
    return expr is not None and all(
        isinstance(n, (*plain, *skipped)) for n in nodes_in(expr)
    )


def tight(expr: ast.expr) -> str:
    """The text of an expression, in parentheses where an operator before or behind it could part
    it.
    """
    text = ast.unparse(expr)
    tight = isinstance(
        expr, (ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.Constant)
    )
    return text if tight else f"({text})"


def both(first: str, second: str) -> str:
    """Two conditions in one."""
    return f"{_operand(first)} and {_operand(second)}"


def _operand(text: str) -> str:
    expr = ast.parse(text, mode="eval").body
    loose = isinstance(expr, (ast.IfExp, ast.Lambda, ast.NamedExpr)) or (
        isinstance(expr, ast.BoolOp) and isinstance(expr.op, ast.Or)
    )
    return f"({text})" if loose else text


def tests_above(
    module: Module, statement: ast.stmt, apart_from: ast.stmt | None
) -> list[tuple[ast.expr, bool]]:
    """The conditions of the `if`s around a statement in its scope, outermost first, and which way
    they went.

    Those that `apart_from` stands under as well are left out.
    """
    shared = (
        set(map(id, module.ancestors(apart_from)))
        if apart_from is not None
        else set()
    )
    found: list[tuple[ast.expr, bool]] = []
    inner: ast.AST = statement
    for above in module.ancestors(statement):
        if isinstance(above, (*FUNCTIONS, ast.ClassDef, ast.Lambda)):
            break
        if isinstance(above, ast.If) and id(above) not in shared:
            found.append((above.test, any(inner is s for s in above.body)))
        inner = above
    return found[::-1]


def optimizer_statement(
    module: Module, call: Initialize, statement: ast.stmt, scope: Scope
) -> ast.stmt | None:
    """Where the first optimizer was bound before `statement`, in the same scope."""
    given = call.argument("optimizers")
    while isinstance(given, (ast.List, ast.Tuple)) and given.elts:
        given = given.elts[0]
    name = dotted_name(given) if given is not None else None
    if name is None:
        return None
    places = [scope.bindings.get(name, [])]
    if scope.owner is not None and name.partition(".")[0] == scope.self_name:
        places.append(
            scope.owner.bindings.get(f"self.{name.partition('.')[2]}", [])
        )
    before = [
        b.statement
        for bindings in places
        for b in bindings
        if isinstance(b.statement, ast.stmt)
        and b.statement.lineno < statement.lineno
        and module.scope_of(b.statement) is scope
    ]
    return max(before, key=lambda s: s.lineno, default=None)
