"""What each function and class of apex is called in torch, and how its arguments change."""

from __future__ import annotations

import ast
from collections.abc import Callable

from amp_migrate.apex.call_text import CallText
from amp_migrate.apex.converted import optimizer_before
from amp_migrate.apex.initialize import Initialize
from amp_migrate.apex.names import ApexNames
from amp_migrate.apex.optimizers import (
    FusedOptimizers,
    is_or_absent,
    parameters_of,
)
from amp_migrate.apex.refused import Refused
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Module
from amp_migrate.model.syntax.queries import any_in, nodes_in
from amp_migrate.model.syntax.span import Span
from amp_migrate.rewrite.edits import Template
from amp_migrate.torch_facts.methods import HALF_ANYWAY

_DDP = "apex.parallel.DistributedDataParallel"
_UNUSED = "find_unused_parameters=True"
CLASSES = {
    _DDP: "nn.parallel.DistributedDataParallel",
    "apex.normalization.FusedLayerNorm": "nn.LayerNorm",
}
_SYNC_BATCH_NORM = "nn.SyncBatchNorm.convert_sync_batchnorm"
_DDP_DROPPED = {
    "message_size",
    "delay_allreduce",
    "shared_param",
    "allreduce_trigger_params",
    "retain_allreduce_buffers",
    "allreduce_always_fp32",
    "num_allreduce_streams",
    "allreduce_communicators",
    "prof",
}


class Replacements:
    """The templates, for one module that calls torch `torch`."""

    def __init__(
        self,
        module: Module,
        names: ApexNames,
        torch: str,
        note: Callable[[ast.AST, str], None],
    ) -> None:
        self.module = module
        self.names = names
        self.torch = torch
        self.note = note
        self.used_torch = False
        self.written = CallText(module)
        fused = FusedOptimizers(self.written, self._text)
        self._calls: dict[str, Callable[[ast.Call], Template]] = {
            "apex.amp.initialize": self._initialize,
            "apex.amp.state_dict": lambda call: Template("None"),
            "apex.amp.master_params": self._master_params,
            "apex.fp16_utils.to_python_float": self._to_python_float,
            _DDP: self._distributed,
            "apex.parallel.convert_syncbn_model": self._sync_batch_norm,
            "apex.parallel.create_syncbn_process_group": self._group,
            "apex.optimizers.FusedAdam": fused.adam,
            "apex.optimizers.FusedSGD": fused.sgd,
        }

    def call(self, call: ast.Call, name: str) -> Template | None:
        """What a call of apex becomes, None where it stays. Raises Refused."""
        make = self._calls.get(name)
        return make(call) if make is not None else None

    def reference(
        self, node: ast.Name | ast.Attribute, name: str
    ) -> Template | None:
        """A class of apex that is named; names that an import binds stay, and the import
        changes.
        """
        if name not in CLASSES:
            return None
        if name == _DDP and not self._is_called_or_asked(node):
            raise Refused(
                "apex-form",
                node,
                f"apex's DistributedDataParallel is handed on here: torch's wants {_UNUSED} "
                "where a parameter may get no gradient",
            )
        if isinstance(node, ast.Name) and name == _DDP:
            return None
        return self._text(CLASSES[name])

    def _text(self, rest: str) -> Template:
        """A name of torch, as the file calls torch."""
        self.used_torch = True
        return Template(f"{self.torch}.{rest}")

    # apex.amp

    def _initialize(self, call: ast.Call) -> Template:
        made = Initialize(call)
        given = made.given
        if given is None:
            raise Refused(
                "apex-form",
                call,
                "the arguments of `amp.initialize` cannot be told apart",
            )
        if not isinstance(given, ast.Tuple) or given.elts[
            0
        ] is not made.argument("models"):
            return Template("$0", (self._span(given),))
        return Template(
            "($0, $1)", (self._span(given.elts[0]), self._span(given.elts[1]))
        )

    def without_state(self, node: ast.Dict) -> Template | None:
        """A checkpoint without the entry of `amp.state_dict()`."""
        state = {
            i for i, value in enumerate(node.values) if self.is_state(value)
        }
        if not state:
            return None
        entries: list[tuple[ast.expr | None, ast.expr]] = list(
            zip(node.keys, node.values, strict=True)
        )
        first = [self._start(key, value) for key, value in entries]
        spans = [
            (start, self._span(value).end)
            for start, (_, value) in zip(first, entries, strict=True)
        ]
        parts = [
            [*([key] if key is not None else []), value]
            for key, value in entries
        ]
        return self.written.without(node, spans, parts, state)

    def is_state(self, value: ast.expr) -> bool:
        """`amp.state_dict()`, or that if AMP is on, else None."""
        if isinstance(value, ast.IfExp):
            other = (
                isinstance(value.orelse, ast.Constant)
                and value.orelse.value is None
            )
            return other and self.is_state(value.body)
        return (
            isinstance(value, ast.Call)
            and self.names.canonical(value.func) == "apex.amp.state_dict"
        )

    def _start(self, key: ast.expr | None, value: ast.expr) -> int:
        """Where an entry of a dict begins, with the stars of one that is spread."""
        if key is not None:
            return self._span(key).start
        return self.module.text.encode().rindex(
            b"**", 0, self._span(value).start
        )

    def _master_params(self, call: ast.Call) -> Template:
        optimizer = (
            call.args[0] if len(call.args) == 1 and not call.keywords else None
        )
        if optimizer is None:
            raise Refused(
                "apex-form", call, "`amp.master_params` takes one optimizer"
            )
        model = self._model_of(optimizer)
        if model is not None:
            return Template(f"{model}.parameters()")
        if any_in(optimizer, ast.Call, ast.NamedExpr, ast.Await):
            raise Refused(
                "apex-form",
                call,
                "the optimizer of `amp.master_params` has no name",
            )
        return Template(
            '[p for group in $0.param_groups for p in group["params"]]',
            (self._span(optimizer),),
        )

    def _model_of(self, optimizer: ast.expr) -> str | None:
        """The model whose parameters the optimizer was made for, by the same name in the same
        scope.
        """
        wanted = dotted_name(optimizer)
        module = self.module
        scope = module.scope_of(optimizer)
        found: set[str | None] = set()
        for other in module.scopes.values():
            for statement in other.body:
                for node in nodes_in(statement):
                    if isinstance(node, ast.Assign) and any(
                        dotted_name(t) == wanted for t in node.targets
                    ):
                        found.add(parameters_of(node.value))
        model = found.pop() if len(found) == 1 else None
        if model is None or wanted is None:
            return None
        home, there = (
            scope.lookup(model.partition(".")[0]),
            scope.lookup(wanted.partition(".")[0]),
        )
        return (
            model
            if home is not None and home is there and home is scope
            else None
        )

    def _to_python_float(self, call: ast.Call) -> Template:
        if len(call.args) != 1 or call.keywords:
            raise Refused(
                "apex-form", call, "`to_python_float` takes one tensor"
            )
        return Template("$0.item()", (self._span(call.args[0]),))

    # apex.parallel

    def _distributed(self, call: ast.Call) -> Template:
        given = {k.arg: k.value for k in call.keywords}
        why = _has_no_counterpart(call, given)
        if why is not None:
            raise Refused("apex-form", call, why)
        self.note(
            call,
            "apex's DistributedDataParallel lets parameters go without a gradient, torch's does so "
            f"with {_UNUSED}: take that out if each of them gets one (torch warns then)",
        )
        dropped = _DDP_DROPPED | {
            "gradient_average",
            "gradient_predivide_factor",
        }
        func = (
            None
            if isinstance(call.func, ast.Name)
            else self._text(CLASSES[_DDP])
        )
        name = func.text if func else None
        return self.written.called(call, name, dropped, _UNUSED)

    def _is_called_or_asked(self, node: ast.AST) -> bool:
        """Whether the class is called there, or a value is asked whether it is of it."""
        above = self.module.parents.get(node)
        if isinstance(above, ast.Tuple):
            above = self.module.parents.get(above)
        if isinstance(above, ast.Call) and above.func is not node:
            return dotted_name(above.func) in ("isinstance", "issubclass")
        return isinstance(above, (ast.Call, ast.Compare))

    def _sync_batch_norm(self, call: ast.Call) -> Template:
        if len(call.args) > 2 or not {k.arg for k in call.keywords} <= {
            "process_group",
            "channel_last",
            "module",
        }:
            raise Refused(
                "apex-form",
                call,
                "the arguments of `convert_syncbn_model` have no counterpart in torch",
            )
        before = optimizer_before(self.module, call)
        if before is not None:
            raise Refused(
                "apex-form",
                call,
                "apex's `convert_syncbn_model` makes new parameters, which the optimizer of line "
                f"{before.lineno} does not hold, and torch's keeps the old ones, which it does: "
                "convert before the optimizer is made",
            )
        return self.written.called(
            call, self._text(_SYNC_BATCH_NORM).text, {"channel_last"}
        )

    def _group(self, call: ast.Call) -> Template:
        """Groups of size 0 are all processes together, which is `None`."""
        given = [*call.args, *(k.value for k in call.keywords)]
        only = given[0] if len(given) == 1 else None
        size = only.value if isinstance(only, ast.Constant) else None
        if size != 0:
            why = "the groups of processes are made by apex: make them by torch.distributed"
            raise Refused("apex-form", call, why)
        return Template("None")

    # text

    def _span(self, node: ast.expr) -> Span:
        return self.module.span(node)


def _has_no_counterpart(
    call: ast.Call, given: dict[str | None, ast.expr]
) -> str | None:
    """Why torch's DistributedDataParallel cannot do what apex's is asked for."""
    if len(call.args) > 1 or None in given:
        return "the arguments of apex's DistributedDataParallel cannot be told apart"
    if not is_or_absent(given.get("gradient_average"), True):
        return "torch's DistributedDataParallel always averages the gradients"
    if not is_or_absent(given.get("gradient_predivide_factor"), 1.0):
        return (
            "torch's DistributedDataParallel has no gradient_predivide_factor"
        )
    return None


def registers_half(call: ast.Call) -> bool:
    """`amp.register_half_function(torch, "einsum")`: a function that autocast runs in half by
    itself.
    """
    named = call.args[1] if len(call.args) == 2 else None
    return isinstance(named, ast.Constant) and named.value in HALF_ANYWAY
