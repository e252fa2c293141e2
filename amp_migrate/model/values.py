"""What names and attributes hold: kinds inferred from constructors, callers, returns and, last, from use and name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from amp_migrate.model.calls import CallGraph, argument
from amp_migrate.model.kinds import (
    OTHER,
    UNKNOWN,
    Kind,
    Value,
    criterion_name,
    library_kind,
    optimizer_name,
    scheduler_name,
)
from amp_migrate.model.neighbours import Definition
from amp_migrate.model.syntax import FUNCTIONS, Binding, Function, Module, Scope, shallow
from amp_migrate.names import dotted_name

_KEEPS = {"to", "cuda", "cpu", "train", "eval", "double", "float", "half", "apply", "requires_grad_", "share_memory"}
_DEEP = 100
_CONTAINERS = {"list", "tuple", "dict", "OrderedDict", "reversed", "sorted", "set"}
# Methods that only models have, and what only optimizers have: evidence where no constructor is in sight.
_MODEL_METHODS = {
    "parameters",
    "named_parameters",
    "state_dict",
    "train",
    "eval",
    "modules",
    "named_modules",
    "requires_grad_",
}


class Values:
    """Answers `kind` for the expressions of one module."""

    def __init__(self, module: Module, graph: CallGraph) -> None:
        self.module = module
        self.graph = graph
        self._cache: dict[tuple[int, int], tuple[ast.expr, Value]] = {}  # holds the node, so that its id stays its own
        self._tentative: dict[tuple[int, int], tuple[ast.expr, Value]] = {}
        self._busy: set[tuple[int, int]] = set()
        self._methods: dict[tuple[int, str], set[str]] | None = None

    def of(self, expr: ast.expr, scope: Scope) -> Value:
        """The value of `expr` evaluated in `scope`."""
        key = (id(expr), id(scope))
        held = self._cache.get(key) or self._tentative.get(key)
        if held is not None:
            return held[1]
        if key in self._busy or len(self._busy) > _DEEP:
            return UNKNOWN
        self._busy.add(key)
        try:
            value = self._infer(expr, scope)
        finally:
            self._busy.discard(key)
        # An unknown found on the way may be known once the question that led here is answered.
        (self._cache if value or not self._busy else self._tentative)[key] = (expr, value)
        if not self._busy:
            self._tentative.clear()
        return value

    def kind(self, expr: ast.expr, scope: Scope) -> Kind:
        """Short for `of(...).kind`."""
        return self.of(expr, scope).kind

    def _infer(self, expr: ast.expr, scope: Scope) -> Value:
        if isinstance(expr, ast.Constant):
            return self._constant(expr)
        if isinstance(expr, ast.Name):
            return self._name(expr.id, scope)
        if isinstance(expr, ast.Attribute):
            return self._attribute(expr, scope)
        if isinstance(expr, ast.Call):
            return self._call(expr, scope)
        if isinstance(expr, ast.Subscript):
            return self._element(self.of(expr.value, scope), scope)
        if isinstance(expr, ast.IfExp):
            return self._join([self.of(expr.body, scope), self.of(expr.orelse, scope)])
        if isinstance(expr, (ast.BoolOp, ast.Compare, ast.UnaryOp)):
            return self._truth(expr, scope)
        if isinstance(expr, (ast.List, ast.Tuple)):
            return self._container(expr.elts, expr, scope)
        if isinstance(expr, ast.Dict):
            return self._container(expr.values, expr, scope)
        if isinstance(expr, (ast.ListComp, ast.GeneratorExp)):
            return self._container([expr.elt], expr, scope)
        if isinstance(expr, ast.DictComp):
            return self._container([expr.value], expr, scope)
        if isinstance(expr, (ast.Await, ast.NamedExpr)):
            return self.of(expr.value, scope)
        if isinstance(expr, ast.JoinedStr):
            return Value(Kind.DEVICE_NAME, expr) if _says_cuda(expr) else OTHER
        return OTHER if isinstance(expr, ast.BinOp) else UNKNOWN

    def _constant(self, expr: ast.Constant) -> Value:
        if isinstance(expr.value, str) and (expr.value.startswith("cuda") or expr.value in ("cpu", "mps", "xpu")):
            return Value(Kind.DEVICE_NAME, expr)
        if expr.value is None:
            return UNKNOWN
        return OTHER

    def _truth(self, expr: ast.BoolOp | ast.Compare | ast.UnaryOp, scope: Scope) -> Value:
        parts = expr.values if isinstance(expr, ast.BoolOp) else [expr.operand] if isinstance(expr, ast.UnaryOp) else []
        kinds = {self.kind(part, scope) for part in parts}
        if isinstance(expr, ast.BoolOp) and isinstance(expr.op, ast.Or):
            return self._join([self.of(part, scope) for part in parts])
        return Value(Kind.CUDA_FLAG, expr) if Kind.CUDA_FLAG in kinds and isinstance(expr, ast.BoolOp) else OTHER

    def _join(self, values: Iterable[Value]) -> Value:
        known = [v for v in values if v]
        telling = [v for v in known if v.kind is not Kind.OTHER]
        special = [v for v in telling if v.kind in (Kind.WRAPPER, Kind.FOREIGN_OPTIMIZER)]
        if special:
            return special[0]  # `optimizer = Noam(optimizer)` is a wrapper from then on
        if {Kind.DEVICE, Kind.DEVICE_NAME} <= {v.kind for v in telling}:
            return next(v for v in telling if v.kind is Kind.DEVICE_NAME)  # what reads a name reads a device as well
        return telling[0] if telling else known[0] if known else UNKNOWN

    def _container(self, elements: list[ast.expr], expr: ast.expr, scope: Scope) -> Value:
        inner = [self.of(e.value if isinstance(e, ast.Starred) else e, scope) for e in elements]
        if inner and all(v.kind in (Kind.OPTIMIZER, Kind.OPTIMIZERS) for v in inner):
            return Value(Kind.OPTIMIZERS, expr, name=inner[0].name)
        if inner and all(v.kind is Kind.MODEL for v in inner):
            return Value(Kind.MODEL, expr)
        return OTHER

    def _element(self, container: Value, scope: Scope) -> Value:
        if container.kind is Kind.OPTIMIZERS:
            return Value(Kind.OPTIMIZER, container.origin, container.name)
        if container.kind is Kind.MODEL:
            return container
        return UNKNOWN

    def _name(self, name: str, scope: Scope) -> Value:
        home = scope.lookup(name)
        if home is None:
            return UNKNOWN
        own = home.owner
        if own is not None and name == home.self_name and isinstance(own.node, ast.ClassDef):
            return self._instance(own.node, None)
        return self._join(self._binding(binding, name, home) for binding in home.bindings[name]) or self._linked(
            name, scope
        )

    def _linked(self, dotted: str, scope: Scope) -> Value:
        """A variable of another file of this program."""
        origin = self.module.elsewhere(dotted, scope)
        return self._name(origin[1], origin[0]) if origin is not None else UNKNOWN

    def _binding(self, binding: Binding, name: str, home: Scope) -> Value:
        if binding.how == "parameter":
            return self._parameter(name, home)
        if binding.value is None or binding.how in ("augmented", "with"):
            return UNKNOWN
        if binding.how == "for":
            return self._loop_target(binding, home)
        if binding.index is not None:
            return self._unpacked(binding.value, binding.index, home)
        return self.of(binding.value, home)

    def _loop_target(self, binding: Binding, home: Scope) -> Value:
        iterable = binding.value
        assert iterable is not None
        index = binding.index
        if isinstance(iterable, ast.Call) and isinstance(iterable.func, ast.Name) and index is not None:
            if iterable.func.id == "zip" and index < len(iterable.args):
                return self._element(self.of(iterable.args[index], home), home)
            if iterable.func.id == "enumerate" and index == 1 and iterable.args:
                return self._element(self.of(iterable.args[0], home), home)
        if isinstance(iterable, ast.Call) and isinstance(iterable.func, ast.Attribute):
            if iterable.func.attr in ("values", "items") and index in (None, 1):
                return self._element(self.of(iterable.func.value, home), home)
        return self._element(self.of(iterable, home), home) if index is None else UNKNOWN

    def _unpacked(self, value: ast.expr, index: int, home: Scope) -> Value:
        function = self.callee(value, home) if isinstance(value, ast.Call) else None
        if function is None:
            whole = self.of(value, home)
            return self._element(whole, home) if whole.kind is Kind.OPTIMIZERS else UNKNOWN
        scope = self.module.scopes[function]
        picked = [r.elts[index] for r in returned(function) if isinstance(r, ast.Tuple) and index < len(r.elts)]
        return self._join(self.of(expr, scope) for expr in picked)

    def _parameter(self, name: str, home: Scope) -> Value:
        """From the annotation, the callers, the default, and what the function does with it."""
        node = home.node
        if not isinstance(node, FUNCTIONS):
            return UNKNOWN
        annotated = self._annotation(name, home)
        if annotated:
            return annotated
        values = []
        for site in self._sites(node):
            given = argument(site[0], home, name, site[2])
            if given is not None:
                values.append(self.of(given, site[1]))
        return self._join(values) or self._join([self._default(name, home)])

    def given(self, name: str, home: Scope) -> list[tuple[ast.expr, Scope]]:
        """The names that callers pass for a parameter, or that are assigned to a variable."""
        found: list[tuple[ast.expr, Scope]] = []
        for binding in home.bindings.get(name, ()):
            if binding.how == "parameter" and isinstance(home.node, FUNCTIONS):
                passed = ((argument(call, home, name, bound), scope) for call, scope, bound in self._sites(home.node))
                found += [(expr, scope) for expr, scope in passed if isinstance(expr, (ast.Name, ast.Attribute))]
            elif (
                binding.how == "assign"
                and isinstance(binding.value, (ast.Name, ast.Attribute))
                and binding.index is None
            ):
                found.append((binding.value, home))
        return found

    def _sites(self, function: Function) -> list[tuple[ast.Call, Scope, bool]]:
        owner = self.module.scopes[function].owner
        if function.name == "__init__" and owner is not None and isinstance(owner.node, ast.ClassDef):
            return [
                (call, scope, True)
                for heir in self.graph.heirs(owner.node)
                for call, scope in self.graph.constructions(heir)
            ]
        return [(site.call, site.scope, site.bound) for site in self.graph.sites(function)]

    def _annotation(self, name: str, home: Scope) -> Value:
        found = next((a.annotation for a in home.parameters() if a.arg == name), None)
        if found is None:
            return UNKNOWN
        canonical = self.module.canonical(found) or ""
        named = {
            "torch.device": Kind.DEVICE,
            "torch.optim.Optimizer": Kind.OPTIMIZER,
            "torch.nn.Module": Kind.MODEL,
            "torch.amp.GradScaler": Kind.SCALER,
            "torch.cuda.amp.GradScaler": Kind.SCALER,
        }
        if canonical in named:
            return Value(named[canonical], None, canonical)
        if isinstance(found, ast.Name) and found.id == "int":
            return Value(Kind.INDEX)
        cls = self.graph.class_named(found, home)
        if cls is not None:
            return self._instance(cls, None)
        abroad = self.abroad(found, home)
        if abroad is None or not isinstance(abroad[1], ast.ClassDef):
            return UNKNOWN
        return Value(abroad[0].values.class_kind(abroad[1]), None, abroad[1].name, foreign=(abroad[0], abroad[1]))

    def _default(self, name: str, home: Scope) -> Value:
        assert isinstance(home.node, FUNCTIONS)
        arguments = home.node.args
        positional = [*arguments.posonlyargs, *arguments.args]
        pairs = list(zip(reversed(positional), reversed(arguments.defaults), strict=False))
        pairs += [(a, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None]
        default = next((d for a, d in pairs if a.arg == name), None)
        return self.of(default, home.parent or home) if default is not None else UNKNOWN

    def _attribute(self, expr: ast.Attribute, scope: Scope) -> Value:
        canonical = self.module.canonical(expr)
        if canonical is not None and canonical.startswith("torch.") and self._imported(expr, scope):
            return OTHER
        if canonical is not None and (linked := self._linked(dotted_name(expr) or "", scope)):
            return linked
        holder = self.of(expr.value, scope)
        if holder.cls is not None:
            found = self.class_attribute(holder.cls, expr.attr)
            if found:
                return found
        if holder.kind is Kind.MODEL and expr.attr == "module":
            return holder
        if holder.kind is Kind.DEVICE and expr.attr == "type":
            return Value(Kind.DEVICE_NAME, expr)
        return self._stored(expr, scope) or (
            Value(Kind.DEVICE, expr) if expr.attr == "device" and not _is_settings(expr) else UNKNOWN
        )

    def _imported(self, expr: ast.expr, scope: Scope) -> bool:
        """Whether the head of a dotted name is an import, and nothing else, as seen from `scope`."""
        head = (dotted_name(expr) or "").partition(".")[0]
        home = scope.lookup(head)
        return home is None or all(b.how == "import" for b in home.bindings[head])

    def _stored(self, expr: ast.Attribute, scope: Scope) -> Value:
        """`args.device = torch.device(...)`: an attribute set in plain sight on a name."""
        dotted = dotted_name(expr)
        here: Scope | None = scope
        while here is not None and dotted is not None:
            if dotted in here.bindings:
                return self._join(self._binding(b, dotted, here) for b in here.bindings[dotted])
            here = here.parent
        return UNKNOWN

    def class_attribute(self, cls: ast.ClassDef, name: str) -> Value:
        """What `self.<name>` holds in a class, its bases and its heirs."""
        family = [*self.graph.lineage(cls), *self.graph.heirs(cls)]
        found = []
        for owner in dict.fromkeys(family):
            scope = self.module.scopes[owner]
            for binding in [*scope.bindings.get(f"self.{name}", ()), *scope.bindings.get(name, ())]:
                found.append(self._attribute_binding(binding, name, scope))
        return self._join(found)

    def _attribute_binding(self, binding: Binding, name: str, scope: Scope) -> Value:
        if binding.value is None:
            return UNKNOWN
        method = self.module.scope_of(binding.statement) if binding.statement in self.module.parents else scope
        return self._binding(binding, name, method)

    def _call(self, expr: ast.Call, scope: Scope) -> Value:
        canonical = self.module.canonical(expr.func)
        if canonical is not None and (found := library_kind(canonical)) is not Kind.UNKNOWN:
            return self._library(found, canonical, expr, scope)
        cls = self.graph.class_named(expr.func, scope)
        if cls is not None:
            return self._instance(cls, expr)
        if (abroad := self.abroad(expr.func, scope)) is not None:
            return self._made_abroad(abroad, expr)
        if _from_torch_optim(expr, self.module):
            return Value(Kind.OPTIMIZER, expr, "torch.optim")
        if isinstance(expr.func, ast.Name) and expr.func.id in _CONTAINERS:
            return self._container_call(expr, scope)
        kept = self._kept(expr, scope)
        if kept:
            return kept
        function = self.callee(expr, scope)
        if function is not None:
            inner = self.module.scopes[function]
            return self._join(self.of(value, inner) for value in returned(function))
        return self._of_foreign_method(expr, scope) or self._guessed(expr, scope)

    def _of_foreign_method(self, expr: ast.Call, scope: Scope) -> Value:
        """`model.configure_optimizers()` of a class in another file."""
        if not isinstance(expr.func, ast.Attribute):
            return UNKNOWN
        foreign = self.of(expr.func.value, scope).foreign
        method = foreign[0].graph.method(foreign[1], expr.func.attr) if foreign is not None else None
        return self._made_abroad((foreign[0], method), expr) if foreign is not None and method is not None else UNKNOWN

    def abroad(self, func: ast.expr, scope: Scope) -> Definition | None:
        """The definition in another module of the project that an imported name refers to."""
        neighbours = scope.module.neighbours
        if neighbours is None:
            return None
        canonical = self.module.canonical(func)
        if canonical is None:
            return self._from_star(func, scope)
        if canonical.startswith("torch.") or not self._imported(func, scope):
            return None
        linked = self.module.elsewhere(dotted_name(func) or "", scope) is not None
        return neighbours.find(canonical) if not linked else None

    def _from_star(self, func: ast.expr, scope: Scope) -> Definition | None:
        """A name that only `from losses import *` can have brought."""
        stars = [s for s in scope.module.imports.stars if not s.startswith("torch")]
        neighbours = scope.module.neighbours
        if not stars or neighbours is None or not isinstance(func, ast.Name) or scope.lookup(func.id) is not None:
            return None
        if self.module.elsewhere(func.id, scope) is not None:
            return None
        return next((d for star in stars if (d := neighbours.find(f"{star}.{func.id}")) is not None), None)

    def _made_abroad(self, definition: Definition, expr: ast.Call) -> Value:
        """An instance of a class of another module, or what a function there returns."""
        program, node = definition
        if isinstance(node, ast.ClassDef):
            kind = program.values.class_kind(node)
            return Value(kind, expr, node.name, foreign=(program, node))
        made = self._join(program.values.of(value, program.scope(node)) for value in returned(node))
        foreign = made.foreign or ((program, made.cls) if made.cls is not None else None)
        return Value(made.kind, expr, made.name, foreign=foreign)

    def _container_call(self, expr: ast.Call, scope: Scope) -> Value:
        values = [*(k.value for k in expr.keywords)]
        if values:
            return self._container(values, expr, scope)
        return self.of(expr.args[0], scope) if expr.args else OTHER

    def _library(self, kind: Kind, canonical: str, expr: ast.Call, scope: Scope) -> Value:
        if canonical == "torch.nn.Sequential" or kind is not Kind.MODEL:
            return Value(kind, expr, canonical)
        inner = next((self.of(a, scope) for a in expr.args if self.kind(a, scope) is Kind.MODEL), None)
        wraps = canonical.endswith(("DataParallel", "DistributedDataParallel", ".compile", ".script"))
        if not wraps or inner is None:
            return Value(kind, expr, canonical)
        return Value(kind, expr, canonical, inner.cls, inner.foreign)

    def _kept(self, expr: ast.Call, scope: Scope) -> Value:
        """`Net().to(device)` is what `Net()` is."""
        if not (isinstance(expr.func, ast.Attribute) and expr.func.attr in _KEEPS):
            return UNKNOWN
        value = self.of(expr.func.value, scope)
        return value if value.kind in (Kind.MODEL, Kind.CRITERION, Kind.OBJECT) else UNKNOWN

    def _guessed(self, expr: ast.Call, scope: Scope) -> Value:
        """An unknown maker whose arguments tell: something made of an optimizer is a scheduler when it is called so."""
        name = (dotted_name(expr.func) or "").rpartition(".")[2]
        given = [*expr.args, *(k.value for k in expr.keywords)]
        takes_optimizer = any(self.kind(a, scope) is Kind.OPTIMIZER for a in given)
        if takes_optimizer and (scheduler_name(name) or name.endswith("LR")):
            return Value(Kind.SCHEDULER, expr, name)
        if name.endswith("Loss") and name[:1].isupper():
            return Value(Kind.CRITERION, expr, name)
        return UNKNOWN

    def _instance(self, cls: ast.ClassDef, origin: ast.expr | None) -> Value:
        return Value(self.class_kind(cls), origin, cls.name, cls)

    def class_kind(self, cls: ast.ClassDef) -> Kind:
        """What instances of a class of this module are."""
        lineage = self.graph.lineage(cls)
        bases = [self.module.canonical(b) or dotted_name(b) or "" for c in lineage for b in c.bases]
        if any(b.startswith("torch.optim.lr_scheduler") or b.endswith("LRScheduler") for b in bases):
            return Kind.SCHEDULER
        if any(library_kind(b) is Kind.OPTIMIZER or b in ("torch.optim.Optimizer", "Optimizer") for b in bases):
            return Kind.OPTIMIZER
        if any(b.startswith("torch.nn.") or b.rpartition(".")[2].endswith(("Module", "Model", "Net")) for b in bases):
            loss = criterion_name(cls.name) and not re.search(r"Model|Net(?![a-z])|Network", cls.name)
            return Kind.CRITERION if loss or any(b.endswith("Loss") for b in bases) else Kind.MODEL
        inherited = self._inherited_kind(lineage)
        if inherited is not None:
            return inherited
        if self.graph.method(cls, "forward") is not None and self.graph.method(cls, "__call__") is None and any(bases):
            return Kind.MODEL  # its base is out of sight, and calling it runs forward
        if self.graph.method(cls, "step") is not None and self._wraps_optimizer(cls):
            return Kind.WRAPPER
        return Kind.OBJECT

    def _inherited_kind(self, lineage: list[ast.ClassDef]) -> Kind | None:
        """The kind of a base class in another module of the project, where it is a telling one."""
        for base in (b for c in lineage for b in c.bases):
            abroad = self.abroad(base, self.module.scope_of(base).root)
            if abroad is not None and isinstance(abroad[1], ast.ClassDef):
                kind = abroad[0].values.class_kind(abroad[1])
                if kind not in (Kind.OBJECT, Kind.WRAPPER):
                    return kind
        return None

    def _wraps_optimizer(self, cls: ast.ClassDef) -> bool:
        """A `step` that steps something called an optimizer, in a class without `param_groups`."""
        step = self.graph.method(cls, "step")
        if step is None or any(self.graph.method(c, "param_groups") for c in [cls]):
            return False
        for node in ast.walk(step):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "step":
                inner = dotted_name(node.func.value) or ""
                if optimizer_name(inner.rpartition(".")[2]):
                    return not self._is_trainer(cls, step)
        return False

    def _is_trainer(self, cls: ast.ClassDef, step: Function) -> bool:
        """A training class may have a `step` that runs backward itself; that is no optimizer."""
        return any(isinstance(n, ast.Attribute) and n.attr == "backward" for n in ast.walk(step))

    def callee(self, call: ast.Call, scope: Scope) -> Function | None:
        """The function or method in this module that `call` runs."""
        func = call.func
        if isinstance(func, ast.Name):
            return self.graph.function_at(func, scope)
        if not isinstance(func, ast.Attribute):
            return None
        linked = self.graph.function_at(func, scope)
        if linked is not None:
            return linked
        if isinstance(func.value, ast.Call) and isinstance(func.value.func, ast.Name) and func.value.func.id == "super":
            around = self.graph.class_around(scope)
            bases = self.graph.lineage(around)[1:] if around is not None else []
            return next((m for base in bases if (m := self.graph.method(base, func.attr))), None)
        holder = self.of(func.value, scope)
        if holder.cls is None:
            return None
        found = self.graph.method(holder.cls, func.attr)
        return found or self._in_heirs(holder.cls, func.attr)

    def _in_heirs(self, cls: ast.ClassDef, name: str) -> Function | None:
        methods = [m for heir in self.graph.heirs(cls) if (m := self.graph.method(heir, name))]
        return methods[0] if len({id(m) for m in methods}) == 1 else None

    def methods_used(self, name: str, scope: Scope) -> set[str]:
        """Names of the methods called on the variable or `self` attribute `name`, anywhere it is that variable."""
        if self._methods is None:
            self._methods = self._all_methods()
        home = self._home(name, scope)
        return self._methods.get((id(home), name), set()) if home is not None else set()

    def _home(self, name: str, scope: Scope) -> object | None:
        head, _, rest = name.partition(".")
        here: Scope | None = scope
        while here is not None:
            if rest and here.self_name == head:
                return here.owner
            here = here.parent
        return scope.lookup(head)

    def _all_methods(self) -> dict[tuple[int, str], set[str]]:
        found: dict[tuple[int, str], set[str]] = {}
        for scope in self.module.scopes.values():
            for call in scope.calls:
                if isinstance(call.func, ast.Attribute) and (holder := dotted_name(call.func.value)):
                    home = self._home(holder, scope)
                    if home is not None:
                        found.setdefault((id(home), holder), set()).add(call.func.attr)
        return found

    def is_model(self, expr: ast.expr, scope: Scope) -> bool:
        """Whether `expr` is a model, by constructor or by how it is used."""
        value = self.of(expr, scope)
        if value:
            return value.kind is Kind.MODEL
        name = dotted_name(expr)
        if name is None or self.module.canonical(expr) is not None and scope.lookup(name.partition(".")[0]) is None:
            return False
        last = name.rpartition(".")[2]
        if optimizer_name(last) or scheduler_name(last):
            return False
        used = self.methods_used(name, scope)
        return bool(used & _MODEL_METHODS) and not criterion_name(last) and "step" not in used


def returned(function: Function) -> list[ast.expr]:
    """The expressions that a function returns; kept on the node, as `shallow` keeps its answer."""
    known: list[ast.expr] | None = function.__dict__.get("_returned")
    if known is None:
        nodes = (n for statement in function.body for n in shallow(statement))
        known = [n.value for n in nodes if isinstance(n, ast.Return) and n.value is not None]
        function.__dict__["_returned"] = known
    return known


def _says_cuda(expr: ast.JoinedStr) -> bool:
    first = expr.values[0] if expr.values else None
    return isinstance(first, ast.Constant) and str(first.value).startswith("cuda")


def _is_settings(expr: ast.Attribute) -> bool:
    """`args.device` is whatever the command line says, not a tensor's device."""
    name = (dotted_name(expr.value) or "").rpartition(".")[2].lower()
    return name in ("self", "cls") or any(
        part in name for part in ("arg", "opt", "config", "cfg", "conf", "params", "hparams", "flags")
    )


def _from_torch_optim(expr: ast.Call, module: Module) -> bool:
    """`getattr(torch.optim, name)(...)`, `optim.__dict__[name](...)`, `eval(name)(...)` of torch.optim."""
    maker = expr.func
    if isinstance(maker, ast.Call) and isinstance(maker.func, ast.Name) and maker.func.id == "getattr" and maker.args:
        return module.canonical(maker.args[0]) == "torch.optim"
    if isinstance(maker, ast.Subscript):
        return (module.canonical(maker.value) or "").startswith("torch.optim.__dict__")
    return False


__all__ = ["OTHER", "UNKNOWN", "Values", "returned"]
