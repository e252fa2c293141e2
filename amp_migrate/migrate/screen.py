"""Reasons to leave a loop alone that are seen before any plan is made (amp-semantics section 6)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from amp_migrate.migrate.refusal import Refusal, Skip
from amp_migrate.model.program import Program
from amp_migrate.model.syntax import FUNCTIONS, Function, Module, Scope, shallow
from amp_migrate.names import dotted_name

_AMP = (
    "torch.amp.",
    "torch.cuda.amp",
    "torch.cpu.amp",
    "torch.autocast",
    "torch.GradScaler",
    "apex.amp",
    "apex.fp16_utils",
)
_SHARDED = (
    "torch.distributed.fsdp",
    "torch.distributed._composable",
    "torch.distributed.tensor",
    "fairscale.nn",
    "torch.distributed._tensor",
)
_FRAMEWORK_OWNERS = {
    "accelerator": "accelerate",
    "accelerate": "accelerate",
    "fabric": "Fabric",
    **dict.fromkeys(("engine", "model_engine", "ds_engine", "deepspeed_engine"), "DeepSpeed"),
}
_NETWORK = re.compile(r"(?i)^(model|net|network|generator|discriminator|encoder|decoder|backbone)(_?[a-z0-9])?$")
_TWO_PASS = {"first_step", "second_step", "ascent_step", "descent_step"}
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
    functions = {id(function) for function in [*_reach(program, scope), *_callers(program, scope)]}
    near = {id(file) for file in files_near(program, scope)}
    return any(
        id(around) in functions if around is not None else id(program.module.scope_of(n).module) in near
        for n in mentions
        for around in [_function_around(program, n)]
    )


def files_near(program: Program, scope: Scope) -> list[Module]:
    """The files that hold a loop, what it runs and what runs it; of a program of many files the others say nothing of it."""
    if len(program.module.files) == 1:
        return list(program.module.files)

    def near() -> list[Module]:
        nodes = [*_reach(program, scope), *_callers(program, scope)]
        return list({id(m): m for m in (program.module.scopes[node].module for node in nodes)}.values())

    return program.remembered((files_near, scope), near)


def scopes_near(program: Program, scope: Scope) -> list[Scope]:
    """The scopes of these files."""
    near = {id(file) for file in files_near(program, scope)}
    return [s for s in program.module.scopes.values() if id(s.module) in near]


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
    """`accelerator.backward(loss)`, `self.manual_backward(loss)` and the like, with the framework's name."""
    for scope in program.module.scopes.values():
        for call in scope.calls:
            if not isinstance(call.func, ast.Attribute) or not (call.args or call.keywords):
                continue
            owner = (dotted_name(call.func.value) or "").rpartition(".")[2]
            if call.func.attr == "manual_backward":
                yield scope, call, "Lightning"
            elif call.func.attr == "backward" and owner in _FRAMEWORK_OWNERS:
                yield scope, call, _FRAMEWORK_OWNERS[owner]


def screen(program: Program, scope: Scope, backwards: list[ast.Call], *, scaled: bool = True) -> None:
    """Raise Skip or Refusal for what no plan can mend; `scaled` False (bfloat16) leaves out what only a scaler forbids."""
    if uses_amp(program, scope):
        raise Skip("already-amp", backwards[0], "this file already uses AMP; `amp-migrate lint` checks how")
    _refuse_distributed(program, backwards)
    _refuse_compiled(program, scope)
    if scaled:
        _refuse_two_pass(scope)


def screen_training(program: Program, scope: Scope, backwards: list[ast.Call], *, scaled: bool = True) -> None:
    """Raise Refusal for loops that do train, in a way that no plan can keep; `scaled` as in `screen`."""
    for function in _reach(program, scope):
        _refuse_second_order(program, function)
    _refuse_half(program, scope)
    for call in backwards if scaled else ():
        _refuse_vector(program, call)


def _refuse_distributed(program: Program, backwards: list[ast.Call]) -> None:
    for name in _imported_near(program, backwards[0]):
        if name.startswith("torch.distributed.autograd"):
            raise _on_other_machines(backwards[0])
        if name.partition(".")[0] == "higher":
            raise Refusal("double-backward", backwards[0], "`higher` differentiates through the optimizer's steps")
        if name.startswith(_SHARDED):
            what = "autocast would keep a half copy of every weight, MixedPrecisionPolicy does not"
            if not name.endswith("fully_shard"):
                what = "found_inf must be shared between ranks (ShardedGradScaler)"
            raise Refusal("sharded", backwards[0], f"`{name}` shards parameters: {what}")


def _on_other_machines(node: ast.AST) -> Refusal:
    return Refusal("distributed-autograd", node, "backward runs on other machines too, out of a scaler's reach")


def refuse_remote(program: Program, backwards: list[ast.Call]) -> None:
    """Raise Refusal where modules may live on other machines, after every nearer reason was looked for."""
    if any(name.startswith("torch.distributed.rpc") for name in _imported_near(program, backwards[0])):
        raise _on_other_machines(backwards[0])


def _imported_near(program: Program, node: ast.AST) -> list[str]:
    files = files_near(program, program.module.scope_of(node))
    return [name for file in files for name in file.imports.names.values()]


def _refuse_compiled(program: Program, scope: Scope) -> None:
    function = scope.node
    if not isinstance(function, FUNCTIONS):
        return
    marks = [d.func if isinstance(d, ast.Call) else d for d in function.decorator_list]
    wrapped = any(
        program.canonical(call.func) == "torch.compile"
        and call.args
        and (dotted_name(call.args[0]) or "").rpartition(".")[2] == function.name
        for other in program.module.scopes.values()
        for call in other.calls
    )
    if wrapped or any(program.canonical(m) in ("torch.compile", "torch.jit.script") for m in marks):
        raise Refusal(
            "compiled-step",
            function,
            "backward and step are compiled, and GradScaler's methods cannot be: compile the model instead",
        )


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
    for node in own_nodes(function):
        if not isinstance(node, ast.Call):
            continue
        canonical = program.canonical(node.func)
        gradient = canonical == "torch.func.grad" or (
            isinstance(node.func, ast.Attribute)
            and node.func.attr in ("backward", "grad")
            and canonical != "torch.autograd.grad"  # migrate.penalties keeps those in float32
        )
        creates = any(k.arg == "create_graph" and not is_false(k.value) for k in node.keywords)
        if gradient and creates:
            raise Refusal("double-backward", node, "gradients of gradients: the inner ones would be scaled too")


def own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes that a function evaluates itself, nested functions and classes left out."""
    body = getattr(function, "body", None)
    for statement in body if isinstance(body, list) else ():
        if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
            continue
        yield from shallow(statement)


def is_false(expr: ast.expr) -> bool:
    """A literal that is false."""
    return isinstance(expr, ast.Constant) and not expr.value


def two_pass_steps(scope: Scope) -> list[ast.Call]:
    """`optimizer.first_step()` and its kin: SAM and the like take two backwards for one step."""
    return [c for c in scope.calls if isinstance(c.func, ast.Attribute) and c.func.attr in _TWO_PASS]


def _refuse_two_pass(scope: Scope) -> None:
    for call in two_pass_steps(scope):
        what = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        raise Refusal(
            "two-pass-optimizer",
            call,
            f"`{what}` steps on gradients between two backwards, which are scaled; --dtype bfloat16 needs no scaler",
        )


def _refuse_half(program: Program, scope: Scope) -> None:
    """Models, or whole programs, that are not float32 to begin with."""
    for other in scopes_near(program, scope):
        for call in other.calls:
            if program.canonical(call.func) == "torch.set_default_dtype" and call.args:
                if program.canonical(call.args[0]) in _HALF_DTYPES:
                    raise Refusal("already-half", call, "the default dtype is not float32")
            if _makes_half(program, call, other):
                raise Refusal(
                    "already-half", call, "the model is not float32: GradScaler and autocast are for float32 parameters"
                )


def _makes_half(program: Program, call: ast.Call, scope: Scope) -> bool:
    func = call.func
    if not isinstance(func, ast.Attribute) or program.canonical(func) is not None:
        return False
    if func.attr in _HALF and not call.args:
        name = (dotted_name(func.value) or "").rpartition(".")[2]
        return program.values.is_model(func.value, scope) or bool(_NETWORK.search(name))
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
        raise Refusal(
            "unsupported-shape",
            call,
            "backward gets a gradient of its own: a vector of losses overflows when it is scaled in half",
        )
