"""Clips of a whole model whose optimizers were made of some of its parts: the gradients of the
others stay scaled, are never cleared, and rule the norm.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from amp_migrate.model.forwards.module_places import (
    Found,
    Frame,
    Place,
    found,
    objects,
    sources,
)
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.steps.held_parameters import kept_modules
from amp_migrate.model.syntax.module import FUNCTIONS, Module, Scope, returned
from amp_migrate.model.syntax.queries import calls_in, holds, nodes_in
from amp_migrate.outcome import Note
from amp_migrate.planner.loop import Loop, Stepper
from amp_migrate.planner.refusal import Refusal
from amp_migrate.records import NamedTuple
from amp_migrate.torch_facts.gradients import UNRECORDED
from amp_migrate.torch_facts.layers import PARAMETERS, TRAINED

Parents: TypeAlias = "Mapping[ast.AST, ast.AST]"
_ASKED = ("parameters", "named_parameters", "param_groups")
_ADDED = ("append", "extend", "insert")
_DEEP = 6
_UNTRAINED = (*UNRECORDED, "detach", "detach_")


class _Clip(NamedTuple):
    """A clip of a whole model, and the parts that the optimizers were made of."""

    call: ast.Call
    model: ast.expr
    modules: list[Found]
    parts: list[Place]
    optimizer: ast.expr

    def left(self) -> list[str]:
        """Parts of the model, surely with parameters, that no optimizer has."""
        return [
            name
            for one in self.modules
            for name, inner in kept_modules(one)
            if _is_trained(inner) and not self._has(one.place.part(name))
        ]

    def is_open(self) -> bool:
        """Whether the model may have parts beside those that the optimizers have."""
        return any(
            one.cls is None
            or any(
                inner.cls is not None and not self._has(one.place.part(name))
                for name, inner in kept_modules(one)
            )
            for one in self.modules
        )

    def _has(self, place: Place) -> bool:
        return any(
            part.holds(place) or place.holds(part) for part in self.parts
        )


def refuse_clipped_parts(
    program: Program, stepper: Stepper, around: tuple[ast.stmt, ...]
) -> None:
    """Refuse a clip that reads a part which is trained, and which no optimizer holds."""
    for clip in _clips(program, stepper, around):
        left = clip.left()
        if not left or any(_is_apart(one) for one in clip.modules):
            continue
        raise Refusal(
            "grad-read-before-unscale",
            clip.call,
            f"`{left[0]}` of `{ast.unparse(clip.model)}` gets gradients as well, and "
            f"`{ast.unparse(clip.optimizer)}` does not hold it: its gradients would keep the "
            "scaler's factor (65,536 at first) and rule what is read here. Read those of the "
            "optimizer's parameters, or freeze the rest",
        )


def clipped_parts(
    program: Program, loop: Loop
) -> Iterator[tuple[Module, Note]]:
    """A note for each clip where it is not in sight what else the model has."""
    for stepper in loop.steppers:
        for clip in _clips(program, stepper, loop.statements(stepper)):
            if not clip.left() and not clip.is_open():
                continue
            message = (
                f"`{ast.unparse(clip.call)}` reads the gradients of all of "
                f"`{ast.unparse(clip.model)}`, and `{ast.unparse(clip.optimizer)}` was made of "
                "parts of it: gradients of other parts would keep the scaler's factor (65,536 "
                "at first). Freeze those parts, or clip what the optimizer holds"
            )
            place = (clip.call.lineno, clip.call.col_offset + 1)
            yield stepper.scope.module, Note(*place, message)


def _clips(
    program: Program, stepper: Stepper, around: tuple[ast.stmt, ...]
) -> Iterator[_Clip]:
    """The clips of a whole model in a scope whose optimizers have parts of that model alone."""
    frame = Frame(program, stepper.scope)
    read = [
        (call, model, modules)
        for statement in around
        for call in calls_in(statement)
        if program.module.scope_of(call) is stepper.scope
        for model in _clipped(program, call, stepper.scope)
        if (modules := objects(model, frame))
    ]
    held = _held(program, stepper) if read else []
    for call, model, modules in read:
        if any(p.holds(m.place) for p in held for m in modules):
            continue
        parts = [p for p in held if any(m.place.holds(p) for m in modules)]
        if parts and not _is_frozen(program, modules):
            optimizer = stepper.steps[0].optimizer
            yield _Clip(call, model, modules, parts, optimizer)


def _clipped(
    program: Program, call: ast.Call, scope: Scope
) -> Iterator[ast.expr]:
    """`model` of `clip_grad_norm_(model.parameters(), 1.0)`."""
    effect = program.effects.of_statement(call, scope)
    if not effect & EventKind.READS_GRADIENTS:
        return
    for one in call.args:
        func = one.func if isinstance(one, ast.Call) else None
        if isinstance(func, ast.Attribute) and func.attr == "parameters":
            yield func.value


def _held(program: Program, stepper: Stepper) -> list[Place]:
    """The modules whose parameters the optimizers have; none where that of one is not known."""
    places: list[Place] = []
    for step in stepper.steps:
        mine = [
            place
            for call in _makers(program, step.optimizer, stepper.scope)
            for frame in _runs(program, program.module.scope_of(call))
            for given in call.args[:1] or [k.value for k in call.keywords]
            for place in _places(given, frame, _DEEP)
        ]
        if not mine:
            return []
        places += mine
    return places


def _makers(
    program: Program, optimizer: ast.expr, scope: Scope
) -> list[ast.Call]:
    """The calls in the program that make an optimizer."""
    origin = program.values.of(optimizer, scope).origin
    made = [one.call for one in found(program, optimizer, scope)]
    calls = [one for one in [origin, *made] if isinstance(one, ast.Call)]
    own = [one for one in calls if one in program.module.parents]
    return list(dict.fromkeys(own))


def _runs(program: Program, scope: Scope) -> list[Frame]:
    """The frames of a function, one for each call of it in sight; of one that nothing calls, the
    body alone.
    """
    node = scope.node
    sites = program.graph.sites(node) if isinstance(node, FUNCTIONS) else ()
    frames = [
        Frame(program, scope, None, one.call, Frame(program, one.scope))
        for one in sites
    ]
    return frames or [Frame(program, scope)]


def _places(expr: ast.expr, frame: Frame, deep: int) -> Iterator[Place]:
    """The modules that are named in what gives parameters, through lists that are filled, and
    functions that collect them.
    """
    parents = frame.program.module.parents
    for node in nodes_in(expr) if deep else ():
        if isinstance(node, ast.Call):
            yield from _given_back(node, frame, deep)
        if not isinstance(node, (ast.Name, ast.Attribute)):
            continue
        parent = parents.get(node)
        is_inner = isinstance(parent, ast.Attribute)
        is_called = isinstance(parent, ast.Call) and parent.func is node
        if is_inner and not _is_asked(parent, parents) or is_called:
            continue
        if isinstance(node, ast.Name):
            for value in _fillers(node, frame.scope):
                yield from _places(value, frame, deep - 1)
        if not _is_argument(node, frame):
            yield from (one.place for one in objects(node, frame))


def _given_back(call: ast.Call, frame: Frame, deep: int) -> Iterator[Place]:
    """The modules whose parameters a function collects, or a method of one of them; any of that
    module where the method is out of sight.
    """
    program, func = frame.program, call.func
    function = program.values.callee(call, frame.scope)
    holders = (
        objects(func.value, frame)
        if isinstance(func, ast.Attribute) and func.attr not in _ASKED
        else []
    )
    if function is None:
        yield from (one.place for one in holders)
        return
    inner = program.scope(function)
    runs = [Frame(program, inner, own, call, frame) for own in holders]
    for run in runs or [Frame(program, inner, None, call, frame)]:
        for given in returned(function):
            yield from _places(given, run, deep - 1)


def _is_asked(holder: ast.AST | None, parents: Parents) -> bool:
    """Whether a method of a module is called that gives its parameters."""
    call = parents.get(holder) if holder is not None else None
    return (
        isinstance(holder, ast.Attribute)
        and holder.attr in _ASKED
        and isinstance(call, ast.Call)
        and call.func is holder
    )


def _is_argument(node: ast.expr, frame: Frame) -> bool:
    """Whether a name is given to a function in sight, which says itself what it collects."""
    call = frame.program.module.parents.get(node)
    return (
        isinstance(call, ast.Call)
        and call.func is not node
        and frame.program.values.callee(call, frame.scope) is not None
    )


def _fillers(name: ast.Name, scope: Scope) -> Iterator[ast.expr]:
    """What a list of parameters is made of, and what is added to it."""
    for binding in scope.bindings.get(name.id, ()):
        if binding.value is not None:
            yield binding.value
        elif isinstance(binding.statement, ast.AugAssign):
            yield binding.statement.value
    for call in scope.calls:
        func = call.func
        if isinstance(func, ast.Attribute) and func.attr in _ADDED:
            if isinstance(func.value, ast.Name) and func.value.id == name.id:
                yield from call.args


def _is_trained(one: Found) -> bool:
    """Whether a part surely has parameters that get gradients."""
    if one.maker in PARAMETERS:
        return not _is_made_frozen(one)
    if one.maker in TRAINED:
        return True
    return any(_is_trained(inner) for _, inner in kept_modules(one))


def _is_made_frozen(one: Found) -> bool:
    """`nn.Parameter(window, requires_grad=not fixed)`, where the caller gives True for `fixed`."""
    made = one.call
    given = made.args[1:] if made is not None else []
    named = made.keywords if made is not None else []
    given = [*given, *(k.value for k in named if k.arg == "requires_grad")]
    return any(_is_always(False, asked, one.frame) for asked in given)


def _is_always(truth: bool, expr: ast.expr, frame: Frame) -> bool:
    """Whether an expression has this truth value, by all that its name may hold."""
    if isinstance(expr, ast.UnaryOp) and isinstance(expr.op, ast.Not):
        return _is_always(not truth, expr.operand, frame)
    if isinstance(expr, ast.Constant):
        return bool(expr.value) is truth
    if not isinstance(expr, ast.Name):
        return False
    known = list(sources(expr, frame))
    return bool(known) and all(
        index is None
        and isinstance(value, ast.Constant)
        and bool(value.value) is truth
        for value, index, _ in known
    )


def _is_frozen(program: Program, modules: list[Found]) -> bool:
    """Whether anything in sight sets `requires_grad`."""
    homes = [one.program for one in modules if one.program is not None]
    return any(
        holds(file.tree, _freezes)
        for home in dict.fromkeys([program, *homes])
        for file in home.module.files
    )


def _freezes(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and (
        node.attr == "requires_grad_"
        or (node.attr == "requires_grad" and isinstance(node.ctx, ast.Store))
    )


def _is_apart(one: Found) -> bool:
    """Whether a class may keep gradients from some of its parts, or is not in sight."""
    if one.program is None or one.cls is None:
        return True
    return any(
        holds(cls, _keeps_from) for cls in one.program.graph.lineage(one.cls)
    )


def _keeps_from(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in _UNTRAINED
