"""Reasons to refuse that lie with the optimizer: none in sight, one of its own rules, gradients used beside it."""

from __future__ import annotations

import ast

from amp_migrate.migrate.refusal import Refusal, Skip
from amp_migrate.migrate.screen import files_near, is_false, own_nodes, scopes_near
from amp_migrate.model.kinds import Kind, optimizer_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax import LOOPS, Scope
from amp_migrate.names import dotted_name


def no_step(program: Program, scope: Scope, backward: ast.Call) -> Refusal:
    """Why a loop without an optimizer's step in sight is left alone."""
    for call in scope.calls:
        if not isinstance(call.func, ast.Attribute):
            continue
        named = call.func.attr.startswith("step_") and program.effects.is_optimizer(call.func.value, scope)
        if named or call.func.attr.startswith(("step_and_", "update_and_")):
            return Refusal(
                "optimizer-wrapper",
                call,
                f"`{ast.unparse(call.func)}` steps through a wrapper that GradScaler cannot step",
            )
    for node in own_nodes(scope.node):
        if _manual_update(node):
            return Refusal(
                "step-elsewhere",
                node,
                "parameters are updated by hand, without an optimizer that GradScaler could step",
            )
    steps = any(program.effects.steps(s) for s in program.module.scopes.values())
    if steps and not _is_script(scope):
        return Refusal(
            "step-elsewhere",
            backward,
            "the optimizer steps in another function, which no call in this file joins with this backward",
        )
    return Skip("no-optimizer", backward, "no optimizer steps on these gradients")


def _is_script(scope: Scope) -> bool:
    return isinstance(scope.node, ast.Module)


def _manual_update(node: ast.AST) -> bool:
    """`w -= lr * w.grad`, `w.data.sub_(lr * w.grad)`, `w.data = w.data - lr * w.grad`; not `norm += w.grad.norm() ** 2`."""
    if isinstance(node, ast.AugAssign) and not _has_grad(node.target):
        scaled = isinstance(node.value, ast.BinOp) and isinstance(node.value.op, ast.Mult)
        return _has_grad(node.value) and (isinstance(node.op, ast.Sub) or (isinstance(node.op, ast.Add) and scaled))
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp) and isinstance(node.value.op, ast.Sub):
        return _has_grad(node.value.right) and not _has_grad(node.targets[0])
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)) or _has_grad(node.func.value):
        return False
    given = [*node.args, *(k.value for k in node.keywords)]
    return node.func.attr in {"sub_", "add_"} and any(_has_grad(g) for g in given)


def _has_grad(node: ast.AST) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr == "grad" for n in ast.walk(node))


def check_gradients(program: Program, scope: Scope, steps: list[ast.Call]) -> None:
    """Refuse gradients that are kept over steps, or read by hooks while they are scaled."""
    text = "".join(file.text for file in files_near(program, scope))
    once = isinstance(scope.node, ast.Module) and not any(
        isinstance(a, LOOPS) for c in steps for a in program.module.ancestors(c)
    )
    if (
        not once
        and "zero_grad" not in text
        and ".grad = None" not in text
        and ".grad.zero_" not in text
        and "grad.data.zero_" not in text
    ):
        raise Refusal(
            "unsupported-shape",
            steps[0],
            "nothing in this file clears the gradients: unscaled ones would be added to scaled ones",
        )
    for node in own_nodes(scope.node):
        if _manual_update(node):
            raise Refusal(
                "step-elsewhere",
                node,
                "parameters are updated by hand here, beside the optimizer's step, with gradients that are scaled",
            )
    _refuse_hooks(program, scope)
    _refuse_input_gradients(program, scope, steps)
    for call in steps:
        assert isinstance(call.func, ast.Attribute)
        value = program.values.of(call.func.value, scope)
        cls = value.cls if value.cls is not None else value.foreign[1] if value.foreign is not None else None
        if cls is not None and any(isinstance(n, ast.Attribute) and n.attr in _BACKWARD_HOOKS for n in ast.walk(cls)):
            raise Refusal(
                "optimizer-wrapper",
                call,
                f"`{cls.name}` reads gradients in hooks during backward, when they are scaled",
            )


def _refuse_hooks(program: Program, scope: Scope) -> None:
    for other in scopes_near(program, scope):
        for call in other.calls:
            if isinstance(call.func, ast.Attribute) and call.func.attr in ("register_hook", *_BACKWARD_HOOKS):
                raise Refusal(
                    "gradient-mutated", call, f"`{call.func.attr}` sees gradients during backward, when they are scaled"
                )
            if any(k.arg == "error_if_nonfinite" and not is_false(k.value) for k in call.keywords):
                raise Refusal(
                    "gradient-mutated",
                    call,
                    "the first overflow is normal with a GradScaler, and `error_if_nonfinite=True` ends the run on it",
                )


def _refuse_input_gradients(program: Program, scope: Scope, steps: list[ast.Call]) -> None:
    """`delta = eps * x.grad`: no optimizer holds `x`, so nothing unscales its gradient. Its sign alone is free of the scale."""
    origins = [program.values.of(c.func.value, scope).origin for c in steps if isinstance(c.func, ast.Attribute)]
    held = {n.id for origin in origins if origin is not None for n in ast.walk(origin) if isinstance(n, ast.Name)}
    for node in own_nodes(scope.node):
        if not (isinstance(node, ast.Attribute) and node.attr == "grad" and isinstance(node.value, ast.Name)):
            continue
        home = scope.lookup(node.value.id)
        if (
            home is None
            or node.value.id in held
            or not isinstance(node.ctx, ast.Load)
            or not program.effects.reads_gradients(node, scope)
        ):
            continue
        of_parameters = any(
            b.value is not None and "param" in ast.unparse(b.value) for b in home.bindings[node.value.id]
        )
        if not of_parameters and "param" not in node.value.id and not _only_sign(program, node):
            raise Refusal(
                "gradient-mutated",
                node,
                f"`{node.value.id}.grad` is read while it is scaled, and no optimizer unscales it",
            )


def _only_sign(program: Program, node: ast.AST) -> bool:
    parent = program.module.parents[node]
    while isinstance(parent, ast.Attribute) and parent.attr in ("data", "detach", "sign", "sign_"):
        if parent.attr in ("sign", "sign_"):
            return True
        parent = program.module.parents[parent]
        parent = program.module.parents[parent] if isinstance(parent, ast.Call) else parent
    return isinstance(parent, ast.Call) and program.canonical(parent.func) == "torch.sign"


_BACKWARD_HOOKS = {"register_backward_hook", "register_full_backward_hook", "register_post_accumulate_grad_hook"}


def check_optimizers(program: Program, scope: Scope, steps: list[ast.Call]) -> None:
    """Refuse steps that GradScaler cannot make: closures, wrappers, other libraries' optimizers."""
    for call in steps:
        assert isinstance(call.func, ast.Attribute)
        value = program.values.of(call.func.value, scope)
        if value.name is not None and value.name.endswith(".LBFGS") or call.args or call.keywords:
            raise Refusal(
                "step-with-closure",
                call,
                "the step evaluates the loss itself, several times; GradScaler does not support closures",
            )
        if value.kind is Kind.WRAPPER:
            raise Refusal(
                "optimizer-wrapper",
                call,
                f"`{value.cls.name if value.cls else ''}` has a step of its own and no param_groups for GradScaler",
            )
        if value.kind is Kind.FOREIGN_OPTIMIZER:
            raise Refusal(
                "not-a-torch-optimizer",
                call,
                f"`{value.name}` is not a torch.optim optimizer; its scaling rules are its own",
            )
        if not value and not handed_over(program, call.func.value, scope):
            raise Refusal(
                "optimizer-not-in-sight",
                call,
                f"nothing in this file shows what `{ast.unparse(call.func.value)}` is or where it is made",
            )


def handed_over(program: Program, optimizer: ast.expr, scope: Scope) -> bool:
    """Whether an optimizer of unknown make is a parameter, or an attribute set from one: its callers decide what it is."""
    while isinstance(optimizer, ast.Subscript):
        optimizer = optimizer.value
    name = dotted_name(optimizer) or ""
    head = name.partition(".")[0]
    home = scope.lookup(head)
    if home is None:
        return False
    if "." not in name:
        return home.bindings[head][0].how == "parameter" or home.bindings[head][0].how == "for"
    cls = program.graph.class_around(scope)
    owner = program.module.scopes[cls] if cls is not None else None
    made = owner.bindings.get(f"self.{name.split('.')[1]}", []) if owner is not None and head == home.self_name else []
    values = [
        b.value
        for b in made
        if b.value is not None and not (isinstance(b.value, ast.Constant) and b.value.value is None)
    ]
    return not values or all(isinstance(v, ast.Name) or _takes_parameters(v) or _is_entry(v) for v in values)


def _takes_parameters(made: ast.expr) -> bool:
    """`config.optimizer_fn(net.parameters())`: an unknown maker is given parameters, as torch's optimizers are."""
    given = [*made.args, *(k.value for k in made.keywords)] if isinstance(made, ast.Call) else []
    named = (dotted_name(g.func if isinstance(g, ast.Call) else g) or "" for g in given)
    return any(name.rpartition(".")[2].endswith(("parameters", "params")) for name in named)


def _is_entry(value: ast.expr) -> bool:
    """`kwargs["optimizer"]`, `config.get("optimizer")`: handed over under a key."""
    key: ast.expr | None = value.slice if isinstance(value, ast.Subscript) else None
    if (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and value.func.attr == "get"
        and value.args
    ):
        key = value.args[0]
    return isinstance(key, ast.Constant) and isinstance(key.value, str) and optimizer_name(key.value)
