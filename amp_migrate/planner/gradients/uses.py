"""Reasons to refuse that lie with the gradients: kept over steps, read while they are scaled, used
beside the optimizer.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from amp_migrate.model.gradients.gradient_clearing import clears_by_hand
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import LOOPS, Module, Scope
from amp_migrate.model.syntax.queries import holds, names_in
from amp_migrate.planner.files.vicinity import (
    files_near,
)
from amp_migrate.planner.gradients.fed_back_norms import refuse_fed_back
from amp_migrate.planner.gradients.hooks import BACKWARD_HOOKS, refuse_hooks
from amp_migrate.planner.gradients.perturbed_weights import refuse_perturbed
from amp_migrate.planner.gradients.plain_gradients import is_plain
from amp_migrate.planner.gradients.sums import refuse_sums
from amp_migrate.planner.preconditions.checks import nodes_in
from amp_migrate.planner.refusal import Refusal, what_was_read
from amp_migrate.planner.steps.step_calls import elsewhere
from amp_migrate.project.import_paths import resolved


def manual_update(node: ast.AST) -> bool:
    """`w -= lr * w.grad`, `w.data.sub_(lr * w.grad)`, `w.data = w.data - lr * w.grad`; not `norm
    += w.grad.norm() ** 2`, nor `fisher[name] += size * w.grad ** 2`.
    """
    if isinstance(node, ast.AugAssign) and not _has_grad(node.target):
        return isinstance(node.op, (ast.Add, ast.Sub)) and _holds_grad_of(
            node.value, _parameter(node.target)
        )
    if (
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.BinOp)
        and isinstance(node.value.op, ast.Sub)
    ):
        return _has_grad(node.value.right) and not _has_grad(node.targets[0])
    if not (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    ) or _has_grad(node.func.value):
        return False
    given = [*node.args, *(k.value for k in node.keywords)]
    return node.func.attr in {"sub_", "add_"} and any(
        _has_grad(g) for g in given
    )


def _parameter(target: ast.expr) -> str | None:
    """`w` of `w.data`."""
    name = dotted_name(target)
    return name.removesuffix(".data") if name is not None else None


def _holds_grad_of(value: ast.expr, parameter: str | None) -> bool:
    """Whether `w.grad` stands in a value."""
    return parameter is not None and holds(
        value,
        lambda n: (
            isinstance(n, ast.Attribute)
            and n.attr == "grad"
            and dotted_name(n.value) in (parameter, f"{parameter}.data")
        ),
    )


def _has_grad(node: ast.AST) -> bool:
    return holds(
        node, lambda n: isinstance(n, ast.Attribute) and n.attr == "grad"
    )


def check_gradients(
    program: Program,
    scope: Scope,
    steps: list[ast.Call],
    around: Sequence[ast.stmt],
) -> None:
    """Refuse gradients that are kept over steps, or read by hooks while they are scaled; `around`
    holds the training.
    """
    _refuse_kept_gradients(program, scope, steps)
    for node in nodes_in(around):
        if manual_update(node):
            raise Refusal(
                "step-elsewhere",
                node,
                "parameters are updated by hand here, beside the optimizer's step, from "
                "gradients that would carry the scaler's factor (65,536 at first)",
            )
    refuse_hooks(program, scope, around)
    refuse_perturbed(program, scope)
    _refuse_readers_elsewhere(program, scope, around)
    _refuse_input_gradients(program, scope, steps, around)
    for call in steps:
        _refuse_own_hooks(program, call, scope)
        refuse_sums(program, scope, call)
        refuse_fed_back(program, scope, call)


def _refuse_kept_gradients(
    program: Program, scope: Scope, steps: list[ast.Call]
) -> None:
    files = [*files_near(program, scope), *_files_of_models(program, scope)]
    once = isinstance(scope.node, ast.Module) and not any(
        isinstance(a, LOOPS) for c in steps for a in program.module.ancestors(c)
    )
    if not once and not any(map(_clears, files)):
        raise Refusal(
            "mixed-gradients",
            steps[0],
            f"nothing in {what_was_read(program)} clears the gradients: unscaled ones would be "
            "added to scaled ones",
            above=True,
        )


def _clears(file: Module) -> bool:
    return "zero_grad" in file.text or clears_by_hand(file.tree)


def _files_of_models(program: Program, scope: Scope) -> Iterator[Module]:
    """The files of the models that a scope runs: `self.zero_grad()` may stand in a forward."""
    for call in scope.calls:
        value = program.values.of(call.func, scope)
        if value.cls is not None:
            yield program.module.scopes[value.cls].module
        elif value.foreign is not None:
            yield value.foreign[0].module


def _refuse_own_hooks(program: Program, step: ast.Call, scope: Scope) -> None:
    """An optimizer in sight whose class registers hooks that run during backward."""
    assert isinstance(step.func, ast.Attribute)
    value = program.values.of(step.func.value, scope)
    foreign = value.foreign[1] if value.foreign is not None else None
    cls = value.cls if value.cls is not None else foreign
    if cls is not None and holds(
        cls,
        lambda n: isinstance(n, ast.Attribute) and n.attr in BACKWARD_HOOKS,
    ):
        raise Refusal(
            "optimizer-wrapper",
            step,
            f"`{cls.name}` reads gradients in hooks during backward, when they carry the "
            "scaler's factor (65,536 at first)",
        )


def _refuse_readers_elsewhere(
    program: Program, scope: Scope, around: Sequence[ast.stmt]
) -> None:
    """`attack.push()`, a method of another file that moves the parameters by their gradients: in
    company with that file it is seen when, and of which factor, they are.
    """
    for node in nodes_in(around):
        if not isinstance(node, ast.Call) or not isinstance(
            node.func, ast.Attribute
        ):
            continue
        found = elsewhere(program, node, scope)
        if (
            found is None
            or found[0].effects.of_function(found[1]) & EventKind.BACKWARD
        ):
            continue
        other, function = found
        reads = (
            n
            for n in nodes_in(function.body)
            if other.effects.reads_gradients(n)
        )
        read = next(reads, None)
        if read is not None:
            path, line = (
                other.module.path,
                getattr(read, "lineno", function.lineno),
            )
            raise Refusal(
                "grad-read-before-unscale",
                node,
                f"`{ast.unparse(node.func)}` reads gradients ({path}:{line}), which carry the "
                "scaler's factor (65,536 at first) until the step; give amp-migrate that file too",
                files=(resolved(path),),
            )


def _refuse_input_gradients(
    program: Program,
    scope: Scope,
    steps: list[ast.Call],
    around: Sequence[ast.stmt],
) -> None:
    """`delta = eps * x.grad`: no optimizer holds `x`, so nothing unscales its gradient. Its sign
    alone is free of the scale.
    """
    origins = [
        program.values.of(c.func.value, scope).origin
        for c in steps
        if isinstance(c.func, ast.Attribute)
    ]
    held = {
        name
        for origin in origins
        if origin is not None
        for name in names_in(origin)
    }
    for node in nodes_in(around):
        if _is_input_gradient(program, node, scope, held) and not (
            isinstance(node, ast.Attribute)
            and all(is_plain(program, node, c, scope) for c in steps)
        ):
            raise Refusal(
                "gradient-mutated",
                node,
                f"`{ast.unparse(node)}` is read while it carries the scaler's factor (65,536 "
                "at first), and no optimizer divides it",
            )


def _is_input_gradient(
    program: Program, node: ast.AST, scope: Scope, held: set[str]
) -> bool:
    """Whether a node reads `x.grad`, other than its sign, where `x` is no parameter."""
    if not (
        isinstance(node, ast.Attribute)
        and node.attr == "grad"
        and isinstance(node.value, ast.Name)
        and isinstance(node.ctx, ast.Load)
    ):
        return False
    name = node.value.id
    home = scope.lookup(name)
    if (
        home is None
        or name in held
        or not program.effects.reads_gradients(node)
    ):
        return False
    of_parameters = any(
        b.value is not None and "param" in ast.unparse(b.value)
        for b in home.bindings[name]
    )
    return (
        not of_parameters
        and "param" not in name
        and not _only_sign(program, node)
    )


def _only_sign(program: Program, node: ast.AST) -> bool:
    parent = program.module.parents[node]
    while isinstance(parent, ast.Attribute) and parent.attr in (
        "data",
        "detach",
        "sign",
        "sign_",
    ):
        if parent.attr in ("sign", "sign_"):
            return True
        parent = program.module.parents[parent]
        parent = (
            program.module.parents[parent]
            if isinstance(parent, ast.Call)
            else parent
        )
    return (
        isinstance(parent, ast.Call)
        and program.canonical(parent.func) == "torch.sign"
    )
