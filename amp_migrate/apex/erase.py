"""The proof of step one: apex erased from the original, by other means, is the program that the
edits made.

Nothing here is shared with the modules that make the edits. Both trees are brought to one form
before they are compared: imports of apex that nothing reads are gone, branches that do the same are
one, empty ones are none.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from typing import Any

from amp_migrate.apex.normal import Normal
from amp_migrate.apex.original import Facts, dotted, facts_of
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.model.syntax.substitution import with_names
from amp_migrate.rewrite.proof.compare import compare
from amp_migrate.torch_facts.methods import HALF_ANYWAY

_DDP = "apex.parallel.DistributedDataParallel"
_DDP_KEPT = {
    "module",
    "device_ids",
    "output_device",
    "broadcast_buffers",
    "dim",
}
_ADAM_GONE = (
    "bias_correction",
    "adam_w_mode",
    "set_grad_none",
    "master_weights",
)
_SGD_GONE = ("wd_after_momentum", "materialize_master_grads", "set_grad_none")


def proved(original: str, output: str) -> str | None:
    """None where `output` is what apex's float32 mode makes of `original`; else what differs."""
    before, after = ast.parse(original), ast.parse(output)
    facts = facts_of(before)
    erased = Normal(facts).run(Eraser(facts).run(before))
    if facts.adds_torch:
        _drop_import(after)
    plain = Normal(facts).run(after)
    difference = compare(erased, plain).difference
    if difference is not None:
        return str(difference)
    now = facts_of(plain)
    left = sorted(
        {
            name
            for name in map(now.name, nodes_in(plain))
            if name and name.startswith(now.removed)
        }
    )
    return f"`{left[0]}` is left" if left else None


def _drop_import(tree: ast.Module) -> None:
    """Take the first plain `import torch` out of a tree."""
    for statement in tree.body:
        if isinstance(statement, ast.Import) and [
            (a.name, a.asname) for a in statement.names
        ] == [("torch", None)]:
            tree.body.remove(statement)
            return


class Eraser(ast.NodeTransformer):
    """Takes the calls of apex out of a tree."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.functions: list[ast.AST] = []

    def run(self, tree: ast.Module) -> ast.Module:
        """Erase in place."""
        self.functions = [tree]
        self.visit(tree)
        return tree

    def generic_visit(self, node: ast.AST) -> Any:
        is_function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        if is_function:
            self.functions.append(node)
        super().generic_visit(node)
        if is_function:
            self.functions.pop()
        return node

    def _called(self, node: ast.AST | None) -> str:
        return (
            (self.facts.name(node.func) or "")
            if isinstance(node, ast.Call)
            else ""
        )

    # statements

    def visit_With(self, node: ast.With) -> Any:
        """`with amp.scale_loss(...)`."""
        if (
            len(node.items) != 1
            or self._called(node.items[0].context_expr) != "apex.amp.scale_loss"
        ):
            return self.generic_visit(node)
        call, target = node.items[0].context_expr, node.items[0].optional_vars
        assert isinstance(call, ast.Call)
        loss = call.args[0] if call.args else call.keywords[0].value
        before: list[ast.stmt] = []
        if isinstance(target, ast.Name):
            if self._stands_for(target.id, loss, node):
                _put(node.body, target.id, loss)
            else:
                before = [ast.copy_location(ast.Assign([target], loss), node)]
        holder = ast.Module([*before, *node.body], [])
        self.generic_visit(holder)
        return holder.body

    def _stands_for(self, name: str, loss: ast.expr, node: ast.With) -> bool:
        """Whether the loss may be written wherever the scaled one was."""
        function = self.functions[-1]
        total = len(_loads(function, name))
        for other in nodes_in(function):
            if (
                isinstance(other, ast.With)
                and self._called(other.items[0].context_expr)
                == "apex.amp.scale_loss"
            ):
                bound = other.items[0].optional_vars
                if isinstance(bound, ast.Name) and bound.id == name:
                    total -= sum(len(_loads(s, name)) for s in other.body)
        if total:
            return False
        stored = {
            n.id
            for s in node.body
            for n in nodes_in(s)
            if isinstance(n, ast.Name) and not _is_load(n)
        }
        if isinstance(loss, ast.Name):
            return loss.id not in stored
        call = (
            node.body[0].value if isinstance(node.body[0], ast.Expr) else None
        )
        receiver = call.func if isinstance(call, ast.Call) else None
        alone = sum(len(_loads(s, name)) for s in node.body) == 1
        return (
            alone
            and isinstance(receiver, ast.Attribute)
            and receiver.attr == "backward"
            and isinstance(receiver.value, ast.Name)
            and receiver.value.id == name
        )

    def visit_If(self, node: ast.If) -> Any:
        """Where torch's classes are used without apex, these."""
        normal = Normal(self.facts)
        if normal.known(node.test) is not True or not normal.has_both(node):
            return self.generic_visit(node)
        holder = ast.Module(node.orelse, [])
        self.generic_visit(holder)
        return holder.body

    def visit_Assign(self, node: ast.Assign) -> Any:
        """The state of apex in a checkpoint."""
        is_entry = len(node.targets) == 1 and isinstance(
            node.targets[0], ast.Subscript
        )
        return (
            []
            if is_entry and self._is_state(node.value)
            else self.generic_visit(node)
        )

    def visit_Expr(self, node: ast.Expr) -> Any:
        """Calls for their effect on apex alone."""
        name = self._called(node.value)
        if name in ("apex.amp.load_state_dict", "apex.amp.initialize"):
            return []
        if name == "apex.amp.register_half_function" and isinstance(
            node.value, ast.Call
        ):
            given = node.value.args
            if (
                len(given) == 2
                and isinstance(given[1], ast.Constant)
                and given[1].value in HALF_ANYWAY
            ):
                return []
        return self.generic_visit(node)

    # expressions

    def _is_state(self, node: ast.expr) -> bool:
        if isinstance(node, ast.IfExp):
            return (
                self._is_state(node.body)
                and isinstance(node.orelse, ast.Constant)
                and node.orelse.value is None
            )
        return self._called(node) == "apex.amp.state_dict"

    def visit_Dict(self, node: ast.Dict) -> Any:
        """An entry of a checkpoint."""
        pairs = [
            (k, v)
            for k, v in zip(node.keys, node.values, strict=True)
            if not self._is_state(v)
        ]
        node.keys, node.values = [k for k, _ in pairs], [v for _, v in pairs]
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> Any:
        """Functions of apex."""
        name = self._called(node)
        given = {k.arg: k.value for k in node.keywords}
        node = self.generic_visit(node)
        if name == "apex.amp.initialize":
            return _handed_back(node, given)
        if name == "apex.amp.state_dict" or _is_everyone(name, node):
            return ast.copy_location(ast.Constant(None), node)
        if name == "apex.amp.master_params":
            made: Any = self._parameters(node.args[0])
            made.of_optimizer = True
            return made
        if name == "apex.fp16_utils.to_python_float":
            return ast.copy_location(
                ast.Call(
                    ast.Attribute(node.args[0], "item", ast.Load()), [], []
                ),
                node,
            )
        if name == _DDP:
            self._distributed(node)
        elif name == "apex.parallel.convert_syncbn_model":
            node.keywords = [
                k for k in node.keywords if k.arg != "channel_last"
            ]
            node.func = self._torch("nn.SyncBatchNorm.convert_sync_batchnorm")
        elif name == "apex.optimizers.FusedAdam":
            self._adam(node, given)
        elif name == "apex.optimizers.FusedSGD":
            node.keywords = [k for k in node.keywords if k.arg not in _SGD_GONE]
            node.func = self._torch("optim.SGD")
        return node

    def _distributed(self, node: ast.Call) -> None:
        """What apex's class takes for granted, torch's has to be told."""
        node.keywords = [
            *(k for k in node.keywords if k.arg in _DDP_KEPT),
            ast.keyword("find_unused_parameters", ast.Constant(True)),
        ]
        if not isinstance(node.func, ast.Name):
            node.func = self._torch("nn.parallel.DistributedDataParallel")

    def _adam(self, node: ast.Call, given: dict[str | None, ast.expr]) -> None:
        """FusedAdam decouples the weight decay, and has none by default; AdamW has."""
        node.keywords = [k for k in node.keywords if k.arg not in _ADAM_GONE]
        mode, decay = given.get("adam_w_mode"), given.get("weight_decay")
        parameters = node.args[0] if node.args else given.get("params")
        whole = isinstance(parameters, ast.Call) and dotted(
            parameters.func
        ).endswith(".parameters")
        whole = (
            whole
            and isinstance(parameters, ast.Call)
            and not parameters.args
            and not parameters.keywords
        )
        none = decay is None or (
            isinstance(decay, ast.Constant) and not decay.value
        )
        if (isinstance(mode, ast.Constant) and not mode.value) or (
            none and whole
        ):
            node.func = self._torch("optim.Adam")
            return
        node.func = self._torch("optim.AdamW")
        if decay is None:
            node.keywords.append(ast.keyword("weight_decay", ast.Constant(0.0)))

    def visit_Name(self, node: ast.Name) -> Any:
        """The layer norm of apex, by its own name."""
        return self._torch("nn.LayerNorm") if self._is_norm(node) else node

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        """Classes of apex by their whole name."""
        if self._is_norm(node):
            return self._torch("nn.LayerNorm")
        if self.facts.name(node) == _DDP:
            return self._torch("nn.parallel.DistributedDataParallel")
        return self.generic_visit(node)

    def _is_norm(self, node: ast.expr) -> bool:
        return self.facts.name(
            node
        ) == "apex.normalization.FusedLayerNorm" and _is_load(node)

    def _torch(self, rest: str) -> ast.expr:
        return ast.parse(f"{self.facts.torch}.{rest}", mode="eval").body

    def _parameters(self, optimizer: ast.expr) -> ast.expr:
        """Those of the model that the optimizer was made for, else those in its groups."""
        models = self.facts.models.get(ast.unparse(optimizer), set())
        scopes = {name for name in models if name is not None}
        if len(models) == 1 and scopes and self._in_sight(optimizer):
            return ast.parse(f"{scopes.pop()}.parameters()", mode="eval").body
        text = ast.unparse(optimizer)
        return ast.parse(
            f'[p for group in {text}.param_groups for p in group["params"]]',
            mode="eval",
        ).body

    def _in_sight(self, optimizer: ast.expr) -> bool:
        """Whether the function makes the optimizer itself, from a model that it binds too."""
        model = next(iter(self.facts.models[ast.unparse(optimizer)]))
        own = self.facts.bound_in(self.functions[-1])
        heads = {
            dotted(optimizer).partition(".")[0],
            str(model).partition(".")[0],
        }
        return heads <= own


def _handed_back(node: ast.Call, given: dict[str | None, ast.expr]) -> ast.expr:
    models = node.args[0] if node.args else given["models"]
    optimizers = node.args[1] if len(node.args) > 1 else given.get("optimizers")
    if optimizers is None or (
        isinstance(optimizers, ast.Constant) and optimizers.value is None
    ):
        return models
    return ast.copy_location(ast.Tuple([models, optimizers], ast.Load()), node)


def _put(block: list[ast.stmt], name: str, value: ast.expr) -> None:
    """`value` wherever a block reads `name`."""

    def instead(node: ast.Name) -> ast.expr:
        return (
            copy.deepcopy(value) if node.id == name and _is_load(node) else node
        )

    with_names(ast.Module(block, []), instead)


def _loads(node: ast.AST, name: str) -> Sequence[ast.Name]:
    return [
        n
        for n in nodes_in(node)
        if isinstance(n, ast.Name) and n.id == name and _is_load(n)
    ]


def _is_load(node: ast.AST) -> bool:
    return isinstance(getattr(node, "ctx", None), ast.Load)


def _is_everyone(name: str | None, call: ast.Call) -> bool:
    """A group of all processes, which is `None`."""
    given = [*call.args, *(one.value for one in call.keywords)]
    return (
        name == "apex.parallel.create_syncbn_process_group"
        and len(given) == 1
        and isinstance(given[0], ast.Constant)
        and given[0].value == 0
    )
