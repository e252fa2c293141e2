"""Reasons to leave a loop alone that are seen before any plan is made (amp-semantics section 6)."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.migrate.refusal import Refusal, Skip
from amp_migrate.model.kinds import Kind
from amp_migrate.model.program import Program
from amp_migrate.model.syntax import FUNCTIONS, LOOPS, Function, Scope, shallow
from amp_migrate.names import dotted_name

_AMP = ("torch.amp.", "torch.cuda.amp", "torch.cpu.amp", "torch.autocast", "torch.GradScaler", "apex.amp", "apex.fp16_utils")
_SHARDED = ("torch.distributed.fsdp", "torch.distributed._composable", "torch.distributed.tensor", "fairscale.nn", "torch.distributed._tensor")
_FRAMEWORK_OWNERS = {"accelerator", "fabric", "engine", "model_engine", "accelerate", "ds_engine", "deepspeed_engine"}
_SETTINGS = {
    "accelerator": 'Accelerator(mixed_precision="fp16")',
    "accelerate": 'Accelerator(mixed_precision="fp16")',
    "fabric": 'Fabric(precision="16-mixed")',
    "self": 'Trainer(precision="16-mixed")',
}
_HALF = {"half", "bfloat16", "double"}
_HALF_DTYPES = {"torch.float16", "torch.half", "torch.bfloat16", "torch.float64", "torch.double"}


def uses_amp(program: Program, scope: Scope) -> bool:
    """Whether the loop has AMP: in its scope, in what it calls, in its callers, in a model class, or at module level."""
    text = program.module.text
    if "autocast" not in text and "GradScaler" not in text and "amp" not in text:
        return False
    mentions = [n for n in program.module.parents if isinstance(n, (ast.Attribute, ast.Name)) and _is_amp(program, n)]
    if not mentions:
        return False
    near = {id(function) for function in _reach(program, scope)} | {id(program.module.tree)}
    near |= {id(caller) for caller in _callers(program, scope)}
    return any(_function_around(program, n) is None or id(_function_around(program, n)) in near for n in mentions)


def _is_amp(program: Program, node: ast.Attribute | ast.Name) -> bool:
    name = program.canonical(node)
    return name is not None and name.startswith(_AMP)


def _function_around(program: Program, node: ast.AST) -> ast.AST | None:
    """The outermost plain function around a node; None at module level and in classes."""
    found: ast.AST | None = None
    for parent in program.module.ancestors(node):
        if isinstance(parent, ast.ClassDef):
            return None
        if isinstance(parent, FUNCTIONS):
            found = parent
    return found


def _callers(program: Program, scope: Scope) -> list[ast.AST]:
    """Functions that lead to this scope, transitively."""
    found: dict[int, ast.AST] = {}
    wanted: list[ast.AST] = [scope.node]
    while wanted:
        node = wanted.pop()
        if id(node) in found:
            continue
        found[id(node)] = node
        if isinstance(node, FUNCTIONS):
            wanted.extend(site.scope.node for site in program.graph.sites(node))
    return list(found.values())


def framework_backwards(program: Program) -> Iterator[tuple[Scope, ast.Call, str]]:
    """`accelerator.backward(loss)`, `self.manual_backward(loss)` and the like, with the setting to use instead."""
    for scope in program.module.scopes.values():
        for call in scope.calls:
            if not isinstance(call.func, ast.Attribute) or not (call.args or call.keywords):
                continue
            owner = (dotted_name(call.func.value) or "").rpartition(".")[2]
            if call.func.attr == "manual_backward" or (call.func.attr == "backward" and owner in _FRAMEWORK_OWNERS):
                yield scope, call, _SETTINGS.get(owner, 'the "fp16" section of its configuration')


def screen(program: Program, scope: Scope, backwards: list[ast.Call]) -> None:
    """Raise Skip or Refusal for what no plan can mend."""
    if uses_amp(program, scope):
        raise Skip("already-amp", backwards[0], "this file already uses AMP; `amp-migrate lint` checks how")
    _refuse_distributed(program, backwards)
    _refuse_compiled(program, scope)
    _refuse_two_pass(program, scope)


def screen_training(program: Program, scope: Scope, backwards: list[ast.Call]) -> None:
    """Raise Refusal for loops that do train, in a way that no plan can keep."""
    for function in _reach(program, scope):
        _refuse_second_order(program, function)
    _refuse_half(program, scope)
    for call in backwards:
        _refuse_vector(program, call)


def _refuse_distributed(program: Program, backwards: list[ast.Call]) -> None:
    for name in program.module.imports.names.values():
        if name.startswith("torch.distributed.autograd") or name.startswith("torch.distributed.rpc"):
            raise Refusal("distributed-autograd", backwards[0], "distributed autograd runs backward on other machines, out of a scaler's reach")
        if name.startswith(_SHARDED):
            raise Refusal(
                "sharded", backwards[0], f"`{name}` shards parameters: found_inf must be shared between ranks (ShardedGradScaler)"
            )


def _refuse_compiled(program: Program, scope: Scope) -> None:
    function = scope.node
    if not isinstance(function, FUNCTIONS):
        return
    marks = [d.func if isinstance(d, ast.Call) else d for d in function.decorator_list]
    wrapped = any(
        program.canonical(call.func) == "torch.compile" and call.args and (dotted_name(call.args[0]) or "").rpartition(".")[2] == function.name
        for other in program.module.scopes.values()
        for call in other.calls
    )
    if wrapped or any(program.canonical(m) in ("torch.compile", "torch.jit.script") for m in marks):
        raise Refusal("compiled-step", function, "backward and step are compiled, and GradScaler's methods cannot be: compile the model instead")


def _reach(program: Program, scope: Scope) -> list[ast.AST]:
    """The scope and the functions in sight that it calls, transitively."""
    found: dict[int, ast.AST] = {id(scope.node): scope.node}
    wanted = [scope]
    while wanted:
        here = wanted.pop()
        for call in here.calls:
            function: Function | None = program.values.callee(call, here)
            if function is not None and id(function) not in found:
                found[id(function)] = function
                wanted.append(program.scope(function))
    return list(found.values())


def _refuse_second_order(program: Program, function: ast.AST) -> None:
    for node in _own_nodes(function):
        if not isinstance(node, ast.Call):
            continue
        gradient = program.canonical(node.func) in ("torch.autograd.grad", "torch.func.grad") or (
            isinstance(node.func, ast.Attribute) and node.func.attr in ("backward", "grad")
        )
        creates = any(k.arg == "create_graph" and not _is_false(k.value) for k in node.keywords)
        if gradient and creates:
            raise Refusal("double-backward", node, "gradients of gradients: the inner ones would be scaled too")


def _own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    body = getattr(function, "body", None)
    for statement in body if isinstance(body, list) else ():
        if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
            continue
        yield from shallow(statement)


def _is_false(expr: ast.expr) -> bool:
    return isinstance(expr, ast.Constant) and not expr.value


def _refuse_two_pass(program: Program, scope: Scope) -> None:
    for call in scope.calls:
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("first_step", "second_step", "ascent_step", "descent_step"):
            raise Refusal("two-pass-optimizer", call, f"`{call.func.attr}` steps on gradients between two backwards, which are scaled")


def _refuse_half(program: Program, scope: Scope) -> None:
    """Models, or whole programs, that are not float32 to begin with."""
    for other in program.module.scopes.values():
        for call in other.calls:
            if program.canonical(call.func) == "torch.set_default_dtype" and call.args:
                if program.canonical(call.args[0]) in _HALF_DTYPES:
                    raise Refusal("already-half", call, "the default dtype is not float32")
            if _makes_half(program, call, other):
                raise Refusal("already-half", call, "the model is not float32: GradScaler and autocast are for float32 parameters")


def _makes_half(program: Program, call: ast.Call, scope: Scope) -> bool:
    func = call.func
    if not isinstance(func, ast.Attribute) or program.canonical(func) is not None:
        return False
    if func.attr in _HALF and not call.args:
        return program.values.is_model(func.value, scope)
    given = [*call.args, *(k.value for k in call.keywords if k.arg in ("dtype", "torch_dtype"))]
    if func.attr == "to" and any(program.canonical(a) in _HALF_DTYPES for a in given):
        return program.values.is_model(func.value, scope)
    return func.attr == "from_pretrained" and any(
        k.arg in ("torch_dtype", "dtype") and program.canonical(k.value) in _HALF_DTYPES for k in call.keywords
    )


def _refuse_vector(program: Program, call: ast.Call) -> None:
    if program.canonical(call.func) == "torch.autograd.backward":
        given = [*call.args[1:2], *(k.value for k in call.keywords if k.arg == "grad_tensors")]
    else:
        given = [*call.args[:1], *(k.value for k in call.keywords if k.arg == "gradient")]
    if any(not (isinstance(g, ast.Constant) and g.value is None) for g in given):
        raise Refusal("unsupported-shape", call, "backward gets a gradient of its own: a vector of losses overflows when it is scaled in half")


def no_step(program: Program, scope: Scope, backward: ast.Call) -> Refusal:
    """Why a loop without an optimizer's step in sight is left alone."""
    for call in scope.calls:
        wrapper = isinstance(call.func, ast.Attribute) and call.func.attr.startswith(("step_and", "update_and", "step_")) and (
            program.effects.is_optimizer(call.func.value, scope)
        )
        if wrapper:
            return Refusal("optimizer-wrapper", call, f"`{ast.unparse(call.func)}` steps through a wrapper that GradScaler cannot step")
    for node in _own_nodes(scope.node):
        if _manual_update(node):
            return Refusal("step-elsewhere", node, "parameters are updated by hand, without an optimizer that GradScaler could step")
    steps = any(program.effects.steps(s) for s in program.module.scopes.values())
    if steps and not _is_script(scope):
        return Refusal("step-elsewhere", backward, "the optimizer steps in another function, which no call in this file joins with this backward")
    return Skip("no-optimizer", backward, "no optimizer steps on these gradients")


def _is_script(scope: Scope) -> bool:
    return isinstance(scope.node, ast.Module)


def _manual_update(node: ast.AST) -> bool:
    """`w -= lr * w.grad`, `w.data.sub_(lr * w.grad)`, `w.data = w.data - lr * w.grad`."""
    if isinstance(node, ast.AugAssign) and isinstance(node.op, (ast.Sub, ast.Add)):
        return _has_grad(node.value)
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp) and isinstance(node.value.op, (ast.Sub, ast.Add)):
        return _has_grad(node.value)
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("sub_", "add_", "copy_")
    return called and isinstance(node, ast.Call) and any(_has_grad(a) for a in [*node.args, *(k.value for k in node.keywords)])


def _has_grad(node: ast.AST) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr == "grad" for n in ast.walk(node))


def check_gradients(program: Program, scope: Scope, steps: list[ast.Call]) -> None:
    """Refuse gradients that are kept over steps, or read by hooks while they are scaled."""
    text = program.module.text
    once = isinstance(scope.node, ast.Module) and not any(isinstance(a, LOOPS) for c in steps for a in program.module.ancestors(c))
    if not once and "zero_grad" not in text and ".grad = None" not in text and ".grad.zero_" not in text and "grad.data.zero_" not in text:
        raise Refusal("unsupported-shape", steps[0], "nothing in this file clears the gradients: unscaled ones would be added to scaled ones")
    _refuse_hooks(program)
    _refuse_input_gradients(program, scope, steps)
    for call in steps:
        assert isinstance(call.func, ast.Attribute)
        value = program.values.of(call.func.value, scope)
        cls = value.cls if value.cls is not None else value.foreign[1] if value.foreign is not None else None
        if cls is not None and any(isinstance(n, ast.Attribute) and n.attr in _BACKWARD_HOOKS for n in ast.walk(cls)):
            raise Refusal("optimizer-wrapper", call, f"`{cls.name}` reads gradients in hooks during backward, when they are scaled")


def _refuse_hooks(program: Program) -> None:
    for other in program.module.scopes.values():
        for call in other.calls:
            if isinstance(call.func, ast.Attribute) and call.func.attr in ("register_hook", *_BACKWARD_HOOKS):
                raise Refusal("gradient-mutated", call, f"`{call.func.attr}` sees gradients during backward, when they are scaled")
            if any(k.arg == "error_if_nonfinite" and not _is_false(k.value) for k in call.keywords):
                raise Refusal(
                    "gradient-mutated", call, "the first overflow is normal with a GradScaler, and `error_if_nonfinite=True` ends the run on it"
                )


def _refuse_input_gradients(program: Program, scope: Scope, steps: list[ast.Call]) -> None:
    """`delta = eps * x.grad`: no optimizer holds `x`, so nothing unscales its gradient. Its sign alone is free of the scale."""
    origins = [program.values.of(c.func.value, scope).origin for c in steps if isinstance(c.func, ast.Attribute)]
    held = {n.id for origin in origins if origin is not None for n in ast.walk(origin) if isinstance(n, ast.Name)}
    for node in _own_nodes(scope.node):
        if not (isinstance(node, ast.Attribute) and node.attr == "grad" and isinstance(node.value, ast.Name)):
            continue
        home = scope.lookup(node.value.id)
        if home is None or node.value.id in held or not isinstance(node.ctx, ast.Load) or not program.effects.reads_gradients(node, scope):
            continue
        of_parameters = any(b.value is not None and "param" in ast.unparse(b.value) for b in home.bindings[node.value.id])
        if not of_parameters and "param" not in node.value.id and not _only_sign(program, node):
            raise Refusal("gradient-mutated", node, f"`{node.value.id}.grad` is read while it is scaled, and no optimizer unscales it")


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
            raise Refusal("step-with-closure", call, "the step evaluates the loss itself, several times; GradScaler does not support closures")
        if value.kind is Kind.WRAPPER:
            raise Refusal(
                "optimizer-wrapper", call, f"`{value.cls.name if value.cls else ''}` has a step of its own and no param_groups for GradScaler"
            )
        if value.kind is Kind.FOREIGN_OPTIMIZER:
            raise Refusal("not-a-torch-optimizer", call, f"`{value.name}` is not a torch.optim optimizer; its scaling rules are its own")
        if not value and not _handed_over(program, call.func.value, scope):
            raise Refusal(
                "optimizer-not-in-sight", call, f"nothing in this file shows what `{ast.unparse(call.func.value)}` is or where it is made"
            )


def _handed_over(program: Program, optimizer: ast.expr, scope: Scope) -> bool:
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
    values = [b.value for b in made if b.value is not None and not (isinstance(b.value, ast.Constant) and b.value.value is None)]
    return not values or all(isinstance(v, ast.Name) for v in values)
