"""Where the scaler lives and how it gets to the loop: it has the optimizer's lifetime and travels with it (section 1)."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace

from amp_migrate.edits import AddArgument, AddParameter, Edit, InsertAfter, InsertBefore, Template
from amp_migrate.migrate.anchors import Anchors
from amp_migrate.migrate.callers import callers_of, refuse_locked, refuse_unlinked
from amp_migrate.migrate.epochs import Epochs
from amp_migrate.migrate.refusal import Refusal
from amp_migrate.migrate.spelling import Spellings
from amp_migrate.migrate.switch import Switch, SwitchFinder
from amp_migrate.model.calls import CallSite, argument
from amp_migrate.model.kinds import Kind
from amp_migrate.model.program import Program
from amp_migrate.model.project import Project
from amp_migrate.model.syntax import FUNCTIONS, Binding, Function, Scope
from amp_migrate.names import dotted_name

_SPAWNERS = ("torch.multiprocessing.spawn", "torch.multiprocessing.Process", "multiprocessing.Process")


@dataclass(frozen=True)
class Home:
    """One lifetime of a scaler: a scope in which it is a local (or a global), or the method that sets `self.scaler`."""

    scope: Scope
    attribute: str | None = None
    """`self` where the scaler is an attribute."""
    top: bool = False
    """Made at the top of a function that gets its optimizer as a parameter."""

    def __hash__(self) -> int:
        return hash((id(self.scope), self.attribute, self.top))


@dataclass
class Wiring:
    """The scaler's name in every scope that needs it, and the edits that bring it there. Grows while loops are planned."""

    program: Program
    switches: SwitchFinder
    spellings: Spellings
    name: str
    project: Project = field(default_factory=Project)
    anchors: Anchors = field(init=False)
    epochs: Epochs = field(init=False)
    homes: dict[Home, list[ast.stmt]] = field(default_factory=dict)
    """Where each scaler may be made: the statements that make its optimizers."""
    access: dict[int, list[Home]] = field(default_factory=dict)
    """Which scalers a scope may see, by id of the scope."""
    edits: dict[Edit, None] = field(default_factory=dict)
    threaded: set[int] = field(default_factory=set)
    optional: dict[int, tuple[Function, str]] = field(default_factory=dict)
    """Functions that may be called without a scaler, and why, by id."""
    stepped: set[str] = field(default_factory=set)
    """Last parts of the names of the optimizers that migrated loops step."""

    def __post_init__(self) -> None:
        self.anchors = Anchors(self.program)
        self.epochs = Epochs(self.program)

    @property
    def names(self) -> tuple[str, ...]:
        """The scaler, and with `--dtype auto` the switch and the dtype, which travel together."""
        return ("use_amp", "amp_dtype", self.name) if self.spellings.settings.dtype == "auto" else (self.name,)

    def snapshot(self) -> Wiring:
        """A copy to go back to when a loop turns out to be refused."""
        homes = {home: list(anchors) for home, anchors in self.homes.items()}
        access = {scope: list(found) for scope, found in self.access.items()}
        return replace(
            self,
            homes=homes,
            access=access,
            edits=dict(self.edits),
            threaded=set(self.threaded),
            optional=dict(self.optional),
            stepped=set(self.stepped),
        )

    def restore(self, earlier: Wiring) -> None:
        """Forget what was planned since `earlier`."""
        self.homes, self.access = earlier.homes, earlier.access
        self.edits, self.threaded, self.stepped = earlier.edits, earlier.threaded, earlier.stepped
        self.optional = earlier.optional

    def steps_root(self, optimizer: ast.expr, scope: Scope) -> bool:
        """Whether a migrated loop steps an optimizer of this name (parameters may rename it; attributes keep theirs)."""
        try:
            name = self._source_of(self._root(optimizer), scope)
        except Refusal:
            return False
        return name.rpartition(".")[2] in self.stepped

    def provide(self, optimizers: list[ast.expr], scope: Scope, loops: list[ast.Call]) -> str:
        """The scaler's name in `scope`, made beside `optimizers`. Raises Refusal where they cannot be followed.

        `loops` are the backward calls; a function that holds the whole epoch loop gets a scaler of its own.
        """
        roots = {self._source_of(self._root(o), scope): o for o in optimizers}
        self.stepped |= {name.rpartition(".")[2] for name in roots} if loops else set()
        kinds = {name: self._where(name, scope) for name in roots}
        homes = {where for where in kinds.values() if where is not None}
        if len(homes) != 1:
            raise Refusal(
                "unsupported-shape", optimizers[0], "the optimizers of this loop are made in different places"
            )
        where = homes.pop()
        if where.startswith("self."):
            return self._attribute_home(list(roots), scope)
        home = scope.lookup(next(iter(roots)).partition(".")[0])
        assert home is not None
        parameters = [n for n in roots if self._is_parameter(n, home)]
        if parameters:
            return self._from_parameter(list(roots), home, scope, optimizers, loops)
        return self._beside(list(roots), home, scope, optimizers, loops)

    def _root(self, optimizer: ast.expr) -> str:
        """The variable an optimizer is reached through: `optimizer`, `optimizers` of `optimizers[i]`, `self.policy`."""
        while isinstance(optimizer, ast.Subscript):
            optimizer = optimizer.value
        if isinstance(optimizer, ast.Call) and isinstance(optimizer.func, ast.Attribute):
            return self._root(optimizer.func.value)
        name = dotted_name(optimizer)
        if name is None:
            raise Refusal("optimizer-not-in-sight", optimizer, "the optimizer is not a variable that can be followed")
        return name

    def _where(self, name: str, scope: Scope) -> str | None:
        head, _, rest = name.partition(".")
        here: Scope | None = scope
        while here is not None:
            if here.self_name == head and rest:
                return "self." + here.qualname.rpartition(".")[0]
            here = here.parent
        home = scope.lookup(head)
        if home is None:
            raise Refusal(
                "optimizer-not-in-sight",
                ast.Name(head),
                f"`{head}` is bound nowhere in this file, so nobody knows what it is",
            )
        return home.qualname

    def _is_parameter(self, name: str, home: Scope) -> bool:
        return home.bindings[name.partition(".")[0]][0].how == "parameter"

    # -- a local of the scope, of an enclosing function, or of the module

    def _beside(
        self, names: list[str], home: Scope, scope: Scope, optimizers: list[ast.expr], loops: list[ast.Call]
    ) -> str:
        bindings = [b for n in names for b in self._makers(n, home, scope, optimizers)]
        if self.epochs.called_per_epoch(home):
            return self._above_function(home, scope, optimizers)
        self._make(Home(home), self.anchors.of(bindings, home, scope, loops), scope)
        return self.name

    def _above_function(self, home: Scope, scope: Scope, optimizers: list[ast.expr]) -> str:
        """The scaler outlives the calls: a global made before the function, or a refusal."""
        if home.parent is not home.root or not isinstance(home.node, FUNCTIONS):
            raise Refusal(
                "unsupported-shape",
                optimizers[0],
                "the optimizer is built anew for every epoch; build it once, beside the model",
            )
        self._make(Home(home.root, top=True), [home.node], scope)
        return self.name

    def _makers(self, name: str, home: Scope, scope: Scope, optimizers: list[ast.expr]) -> list[Binding]:
        """The statements that make an optimizer (or the object that owns it)."""
        bindings = [b for b in home.bindings[name.partition(".")[0]] if not _is_none(b.value) and b.how != "augmented"]
        here = [b for b in bindings if self.program.module.scope_of(b.statement) is home]
        bindings = here or bindings  # rebound elsewhere under `global`: the scaler made here serves that optimizer too
        if not bindings or any(b.how not in ("assign", "with") for b in bindings):
            raise Refusal(
                "optimizer-not-in-sight",
                optimizers[0],
                f"`{name}` comes from elsewhere; its construction is not in this file",
            )
        return bindings

    def _source_of(self, name: str, scope: Scope) -> str:
        """The list behind a loop variable, the name itself otherwise."""
        home = scope.lookup(name)
        return (self._loop_source(name, home) if home is not None else None) or name

    def _loop_source(self, name: str, home: Scope) -> str | None:
        """`for optimizer in optimizers:` leads to the list."""
        bindings = home.bindings.get(name, [])
        if not bindings or bindings[0].how != "for" or bindings[0].value is None:
            return None
        iterable: ast.expr = bindings[0].value
        if isinstance(iterable, ast.Call):
            if isinstance(iterable.func, ast.Attribute):
                iterable = iterable.func.value
            else:
                optimizers = [a for a in iterable.args if self.program.values.kind(a, home) is Kind.OPTIMIZERS]
                iterable = optimizers[0] if optimizers else iterable
        return dotted_name(iterable)

    # -- an attribute of the object

    def _attribute_home(self, names: list[str], scope: Scope) -> str:
        """`self.scaler` right after `self.optimizer`, whatever method makes it."""
        method: Scope | None = scope
        while method is not None and method.owner is None:
            method = method.parent
        cls = self.program.graph.class_around(scope)
        assert method is not None
        assert cls is not None
        made = [self._attribute_makers(name, cls, scope) for name in names]
        by_method: dict[int, list[Binding]] = {}
        for binding in (b for bindings in made for b in bindings):
            by_method.setdefault(id(self.program.module.scope_of(binding.statement)), []).append(binding)
        for bindings in by_method.values():
            where = self.program.module.scope_of(bindings[0].statement)
            self._make(Home(where, where.self_name or "self"), self.anchors.of(bindings, where, scope, []), scope)
        return f"{method.self_name}.{self.name}"

    def _attribute_makers(self, name: str, cls: ast.ClassDef, scope: Scope) -> list[Binding]:
        """The statements that set `self.<attribute>` in the class, its bases and its heirs."""
        attribute = "self." + name.split(".")[1]
        refuse_unlinked(self.program, self.project, cls, name.split(".")[1])
        for owner in self.program.graph.lineage(cls):
            if self._sets(owner, attribute):
                return [b for heir in self.program.graph.heirs(owner) for b in self._sets(heir, attribute)]
        heirs = [h for h in self.program.graph.heirs(cls) if h is not cls]
        leaves = [h for h in heirs if self.program.graph.heirs(h) == [h]]
        made = {id(o): self._sets(o, attribute) for h in leaves for o in self.program.graph.lineage(h)}
        if leaves and all(any(made[id(o)] for o in self.program.graph.lineage(leaf)) for leaf in leaves):
            return [b for bindings in made.values() for b in bindings]
        raise Refusal(
            "optimizer-not-in-sight",
            scope.node,
            f"`{name}` is set in no class in sight (a base class elsewhere, or the caller, sets it)",
        )

    def _sets(self, cls: ast.ClassDef, attribute: str) -> list[Binding]:
        bindings = self.program.module.scopes[cls].bindings.get(attribute, [])
        return [b for b in bindings if b.how == "assign" and not _is_none(b.value)]

    # -- a parameter

    def _from_parameter(
        self, names: list[str], home: Scope, scope: Scope, optimizers: list[ast.expr], loops: list[ast.Call]
    ) -> str:
        function = home.node
        if not isinstance(function, FUNCTIONS):
            raise Refusal("optimizer-not-in-sight", optimizers[0], "the optimizer is a lambda's parameter")
        if id(function) in self.threaded:
            return self.name
        if self.epochs.holds_everything(function, scope, loops):
            self._make(Home(home, top=True), [self.epochs.top_of(function, home)], scope)
            return self.name
        self.thread(function, names)
        return self.name

    def thread(self, function: Function, names: list[str]) -> None:
        """Give `function` a parameter for the scaler and pass it at every call, making it where the optimizer is made."""
        if id(function) in self.threaded:
            return
        found = callers_of(self.program, self.project, function)
        refuse_locked(self.project, self.program.scope(function).module, function)
        self.threaded.add(id(function))
        if found.unknown is not None:
            self._optional(function, found.unknown)
        for name in self.names:
            default = "None" if found.unknown is not None else None
            self.edits[AddParameter(self.program.module.span(function), name, default)] = None
        inner = self.program.scope(function)
        for site in sorted(found.sites, key=lambda s: self._given_none(s, inner, names)):
            self._pass_at(site, function, names)
        for peer in found.peers:
            self.thread(peer, [])

    def _optional(self, function: Function, why: str) -> None:
        """Callers that nobody sees pass no scaler: for them AMP is off."""
        if len(self.names) > 1:
            raise Refusal("callers-unknown", function, f"{why}: its callers cannot all be given the switch")
        inner = self.program.scope(function)
        made = self.spellings.of(inner).scaler('"cuda"', "False")
        top = function.body[1 if ast.get_docstring(function, clean=False) is not None and len(function.body) > 1 else 0]
        lines = f"if {self.name} is None:\n    {self.name} = {made}"
        self.edits[InsertBefore(self.program.module.span(top), (Template(lines),), above=True)] = None
        self.optional[id(function)] = (function, why)

    def _pass_at(self, site: CallSite, function: Function, names: list[str]) -> None:
        inner = self.program.scope(function)
        self.epochs.note(site.call, function)
        given = [argument(site.call, inner, n.partition(".")[0], site.bound) for n in names]
        try:
            if names and any(g is None for g in given):
                raise Refusal(
                    "callers-unknown",
                    site.call,
                    f"the call of `{function.name}` does not show which optimizer it passes",
                )
            value = self._value_at(site, [g for g in given if g is not None], inner, names)
        except Refusal as refusal:
            if id(function) in self.optional and not refusal.files:
                return  # this caller stays in float32
            raise
        self.access.setdefault(id(inner), []).extend(self.access.get(id(site.scope), ()))
        holder = value.rpartition(".")[0]
        for name in self.names:
            given_value = f"{holder}.{name}" if holder else name
            self.edits[AddArgument(self.program.module.span(site.call), name, given_value)] = None

    def _value_at(self, site: CallSite, given: list[ast.expr], inner: Scope, names: list[str]) -> str:
        """The scaler to pass at one call: beside the optimizer that is passed; any in sight where that is None."""
        if names and not self._given_none(site, inner, names):
            return self.provide(given, site.scope, [site.call])
        value = self.visible(site.scope)
        if value is None:
            raise Refusal("callers-unknown", site.call, "this call passes no optimizer, and no scaler is in sight")
        return value

    def _given_none(self, site: CallSite, inner: Scope, names: list[str]) -> bool:
        """A call for evaluation: `run(model, loader, optimizer=None)`."""
        given = [argument(site.call, inner, n.partition(".")[0], site.bound) for n in names]
        return bool(given) and all(_is_none(g) for g in given)

    def reach(self, stepper: Scope, helper: Scope, name: str) -> str:
        """The scaler's name in a helper that a stepping scope calls."""
        self.access.setdefault(id(helper), []).extend(self.access.get(id(stepper), ()))
        if name.partition(".")[0] == stepper.self_name and helper.self_name and helper.owner is not None:
            return f"{helper.self_name}.{name.partition('.')[2]}"
        home = self.access.get(id(stepper), [])
        if "." not in name and all(h.scope is helper.root for h in home):
            return name
        if not isinstance(helper.node, FUNCTIONS):
            raise Refusal("step-elsewhere", helper.node, "this helper cannot be given the scaler")
        self.thread(helper.node, [])
        return name

    def visible(self, scope: Scope) -> str | None:
        """The scaler's name in `scope` if it can be read there without being passed."""
        for home in [h for h in self.homes if not h.top]:
            if home.attribute and self.program.graph.class_around(scope) is self.program.graph.class_around(home.scope):
                method = scope
                while method.owner is None and method.parent is not None:
                    method = method.parent
                return f"{method.self_name}.{self.name}" if method.self_name else None
            here: Scope | None = scope
            while here is not None and not home.attribute:
                if here is home.scope:
                    return self.name
                here = here.parent
        return self.name if id(scope.node) in self.threaded else None

    # -- making it

    def _make(self, home: Home, anchors: list[ast.stmt], scope: Scope) -> None:
        refuse_locked(self.project, home.scope.module, home.scope.node)
        self.homes.setdefault(home, []).extend(anchors)
        for seen in (scope, home.scope):
            if home not in self.access.setdefault(id(seen), []):
                self.access[id(seen)].append(home)

    def constructions(self) -> list[Edit]:
        """The statements that make the scalers."""
        return [
            self._construction(home, anchor)
            for home, anchors in self.homes.items()
            for anchor in self.anchors.lasts(anchors)
        ]

    def _construction(self, home: Home, anchor: ast.stmt) -> Edit:
        anchor, moved = (anchor, False) if home.attribute else self.anchors.before_epochs(anchor)
        switch = self.switches.at(home.scope, anchor)
        spelling = self.spellings.of(home.scope)
        prefix = f"{home.attribute}." if home.attribute else ""
        scaler = Template(f"{prefix}{self.name} = {spelling.scaler(switch.device_type, switch.enabled, prefix)}")
        statements = (*(Template(line) for line in spelling.choice(switch.enabled, prefix)), scaler)
        span = self.program.module.span(anchor)
        return InsertBefore(span, statements) if home.top or moved else InsertAfter(span, statements)

    def switches_for(self, scope: Scope) -> list[Switch]:
        """The switches of the scalers that `scope` may use."""
        here: Scope | None = scope
        while here is not None and id(here) not in self.access:
            here = here.parent
        homes = self.access.get(id(here), []) if here is not None else []
        return [
            self.switches.at(home.scope, anchor) for home in homes for anchor in self.anchors.lasts(self.homes[home])
        ]


def _is_none(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


__all__ = ["Home", "Wiring"]
