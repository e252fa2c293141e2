"""What names hold on a path: models that values were computed from, scalers, conditions, other
names.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.forwards.given_models import is_given_model
from amp_migrate.model.steps.recognition import Events
from amp_migrate.model.syntax.module import blocks, shallow
from amp_migrate.model.syntax.queries import children_of
from amp_migrate.protocol.conditions import Conditions
from amp_migrate.protocol.frames import Frame, identity, place
from amp_migrate.protocol.paths import NOTHING, Path, Val, joined
from amp_migrate.torch_facts.gradients import UNRECORDED

_CUTS = {"detach", "item", "numpy", "tolist", "no_grad"}
_BUILTINS = frozenset(
    """
    sum len range float int str zip enumerate next iter max min abs list
    tuple dict set sorted isinstance getattr print map round bool
    """.split()
)


class Evaluation:
    """Answers what an expression was computed from, and follows assignments."""

    def __init__(self, events: Events, conditions: Conditions) -> None:
        self.events = events
        self.program = events.program
        self.conditions = conditions
        self.tracks = True
        """Whether it matters which models a value was computed from."""
        self._scaling: dict[int, bool] = {}

    def held(self, expr: ast.expr, path: Path, frame: Frame) -> Val:
        """What a name holds that is given the value of `expr`."""
        if isinstance(expr, ast.Constant):
            return Val(constant=(expr.value,))
        own = path.env.get(place(expr, frame, path) or "")
        if own is not None and own.constant:
            return own
        value = self.value(expr, path, frame)
        if value is not NOTHING:
            name = identity(expr, frame, path) or value.text
            return value._replace(text=name, flipped=False, amp=None)
        condition = self.conditions.held(expr, path, frame)
        if condition is not None:
            return condition
        name = identity(expr, frame, path)
        return NOTHING if name is None else Val(text=name)

    def value(self, expr: ast.AST, path: Path, frame: Frame) -> Val:
        """What `expr` was computed from: models, and a scaler."""
        if not self.tracks and not self._may_scale(expr, path):
            return NOTHING
        own = place(expr, frame, path)
        if own is not None:
            known = path.env.get(own)
            if known is None and isinstance(
                expr, (ast.Subscript, ast.Attribute)
            ):
                return joined([self.value(expr.value, path, frame)])
            tells = known is not None and (
                known.models or known.scaled or known.vague
            )
            return known if known is not None and tells else NOTHING
        if isinstance(expr, ast.Call):
            return self._of_call(expr, path, frame)
        if isinstance(expr, ast.IfExp):
            value = joined(
                [
                    self.value(expr.body, path, frame),
                    self.value(expr.orelse, path, frame),
                ]
            )
            return (
                Val(models=value.models, vague=value.vague, scaled="?")
                if value.scaled
                else value
            )
        if isinstance(expr, (ast.Lambda, ast.Constant)):
            return NOTHING
        return joined(
            self.value(child, path, frame) for child in children_of(expr)
        )

    def _may_scale(self, expr: ast.AST, path: Path) -> bool:
        """Whether a scaler, or something scaled, may be in `expr`."""
        key = id(expr)
        if key not in self._scaling:
            self._scaling[key] = any(
                "scal"
                in (n.attr if isinstance(n, ast.Attribute) else n.id).lower()
                for n in shallow(expr)
                if isinstance(n, (ast.Name, ast.Attribute))
            )
        return self._scaling[key] or any(
            v.scaled or k.startswith("return ") for k, v in path.env.items()
        )

    def _of_call(self, call: ast.Call, path: Path, frame: Frame) -> Val:
        scope, func = frame.scope, call.func
        known = path.env.get(f"return {id(call)}")
        if known is not None:
            return known
        arguments = joined(
            self.value(a, path, frame)
            for a in [*call.args, *(k.value for k in call.keywords)]
        )
        if isinstance(func, ast.Attribute):
            if func.attr in _CUTS:
                return NOTHING
            if func.attr == "scale":
                name = (
                    identity(func.value, frame, path)
                    if self.events.is_scaler(func.value, scope)
                    else None
                )
                return Val(
                    models=arguments.models,
                    vague=arguments.vague,
                    scaled=name or "?",
                )
        if self.events.what(call, scope) is not None:
            return NOTHING
        if (
            self.program.effects.is_forward(call, scope)
            and self.program.values.callee(call, scope) is None
        ):
            name = identity(func, frame, path)
            return Val(
                models=arguments.models | {name or "?"}, scaled=arguments.scaled
            )
        return self._unknown(call, arguments, path, frame)

    def _unknown(
        self, call: ast.Call, arguments: Val, path: Path, frame: Frame
    ) -> Val:
        scope = frame.scope
        given = [*call.args, *(k.value for k in call.keywords)]
        models = {
            identity(a, frame, path) or "?"
            for a in given
            if is_given_model(self.program, a, scope)
        }
        scaled = (
            "?"
            if any(self.events.is_scaler(a, scope) for a in given)
            else arguments.scaled
        )
        holder = (
            self.value(call.func.value, path, frame)
            if isinstance(call.func, ast.Attribute)
            else NOTHING
        )
        found = joined(
            [arguments, holder, Val(models=frozenset(models), scaled=scaled)]
        )
        if found.models or found.vague:
            return found
        torch = (self.program.canonical(call.func) or "").startswith("torch")
        vague = not torch and not (
            isinstance(call.func, ast.Name) and call.func.id in _BUILTINS
        )
        return (
            Val(vague=vague, scaled=found.scaled)
            if vague or found.scaled
            else NOTHING
        )

    def assigned(
        self,
        statement: ast.Assign | ast.AnnAssign | ast.AugAssign,
        path: Path,
        frame: Frame,
    ) -> Path:
        """The path behind an assignment."""
        if statement.value is None:
            return path
        path = path.fork()
        self._assign(statement, path, frame)
        return path

    def _assign(
        self,
        statement: ast.Assign | ast.AnnAssign | ast.AugAssign,
        path: Path,
        frame: Frame,
    ) -> None:
        """Run an assignment on a path of which nobody else knows."""
        if statement.value is None:
            return
        if isinstance(statement, ast.AugAssign):
            own = place(statement.target, frame, path)
            if own is not None:
                old = path.env.get(own, NOTHING)
                new = self.value(statement.value, path, frame)
                path.assign(own, joined([old, new]))
            return
        value = self.held(statement.value, path, frame)
        for target in (
            statement.targets
            if isinstance(statement, ast.Assign)
            else [statement.target]
        ):
            self._store(target, statement.value, value, path, frame)

    def _store(
        self,
        target: ast.expr,
        given: ast.expr | None,
        value: Val,
        path: Path,
        frame: Frame,
    ) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            parts = (
                given.elts
                if isinstance(given, (ast.Tuple, ast.List))
                and len(given.elts) == len(target.elts)
                else None
            )
            held = (
                [self.held(p, path, frame) for p in parts]
                if parts is not None
                else [joined([value])] * len(target.elts)
            )
            for element, inner in zip(target.elts, held, strict=True):
                self._store(element, None, inner, path, frame)
            return
        if isinstance(target, ast.Starred):
            target = target.value
        own = place(target, frame, path)
        if own is None or (given is not None and value == Val(text=own)):
            return  # `info = helper(info)` that gives back what it got
        keeps = value.text is None or value.text != own
        path.assign(own, value if keeps else NOTHING)

    def skimmed(self, statement: ast.stmt, path: Path, frame: Frame) -> Path:
        """A statement without events: what it binds, whichever way it goes."""
        path = path.fork()
        self._skim(statement, path, frame, sure=True)
        return path

    def _skim(
        self, statement: ast.stmt, path: Path, frame: Frame, *, sure: bool
    ) -> None:
        if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            self._skim_assignment(statement, path, frame, sure=sure)
            return
        if isinstance(statement, (ast.For, ast.AsyncFor)):
            for node in shallow(statement.target):
                own = place(node, frame, path)
                if own is not None:
                    path.assign(
                        own, joined([self.value(statement.iter, path, frame)])
                    )
        inside = isinstance(statement, (ast.With, ast.AsyncWith))
        cut = isinstance(statement, (ast.With, ast.AsyncWith)) and self.cuts(
            statement
        )
        for block in blocks(statement):
            for inner in block:
                self._skim(inner, path, frame, sure=sure and inside)
                if cut and isinstance(inner, (ast.Assign, ast.AnnAssign)):
                    self._clear(inner, path, frame)

    def _skim_assignment(
        self,
        statement: ast.Assign | ast.AnnAssign | ast.AugAssign,
        path: Path,
        frame: Frame,
        *,
        sure: bool,
    ) -> None:
        if (
            not self.tracks
            and not sure
            and (
                statement.value is None
                or not self._may_scale(statement.value, path)
            )
        ):
            self._forget(statement, path, frame)
            return
        names = self._bound(statement, path, frame)
        before = {name: path.env.get(name, NOTHING) for name in names}
        self._assign(statement, path, frame)
        for name in () if sure else names:
            value = joined([before[name], path.env.get(name, NOTHING)])
            path.env[name] = value
            if value is NOTHING:
                del path.env[name]

    def _bound(
        self,
        statement: ast.Assign | ast.AnnAssign | ast.AugAssign,
        path: Path,
        frame: Frame,
    ) -> list[str]:
        nodes = [n for n in _named(statement) if isinstance(n.ctx, ast.Store)]
        return [
            own for n in nodes if (own := place(n, frame, path)) is not None
        ]

    def _forget(
        self,
        statement: ast.Assign | ast.AnnAssign | ast.AugAssign,
        path: Path,
        frame: Frame,
    ) -> None:
        for node in _named(statement):
            own = place(node, frame, path)
            if own is not None:
                path.assign(own, NOTHING)

    def _clear(
        self, statement: ast.Assign | ast.AnnAssign, path: Path, frame: Frame
    ) -> None:
        """Values made under `no_grad` carry no gradients."""
        for node in _named(statement):
            own = place(node, frame, path)
            if own is not None:
                path.env.pop(own, None)

    def cuts(self, statement: ast.With | ast.AsyncWith) -> bool:
        """Whether what is computed in there carries no gradients."""
        return any(
            last(item.context_expr.func) in UNRECORDED
            for item in statement.items
            if isinstance(item.context_expr, ast.Call)
        )


def _named(
    statement: ast.Assign | ast.AnnAssign | ast.AugAssign,
) -> tuple[ast.Name | ast.Attribute | ast.Subscript, ...]:
    """What the targets of an assignment name, kept on the node: every path that comes by asks."""
    known: tuple[ast.Name | ast.Attribute | ast.Subscript, ...] | None = (
        statement.__dict__.get("_named")
    )
    if known is None:
        targets = (
            statement.targets
            if isinstance(statement, ast.Assign)
            else [statement.target]
        )
        found = (node for target in targets for node in _parts(target))
        known = tuple(
            node
            for node in found
            if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript))
        )
        statement.__dict__["_named"] = known
    return known


def _parts(target: ast.expr) -> Iterator[ast.AST]:
    """What an assignment changes: `self.x = 1` leaves `self` as it is."""
    if isinstance(target, (ast.Tuple, ast.List)):
        for element in target.elts:
            yield from _parts(element)
    elif isinstance(target, ast.Attribute):
        yield target
    else:
        yield from shallow(target)


def last(func: ast.expr) -> str:
    """The last word of what is called."""
    return (
        func.attr
        if isinstance(func, ast.Attribute)
        else func.id
        if isinstance(func, ast.Name)
        else ""
    )
