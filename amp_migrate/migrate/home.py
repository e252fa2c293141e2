"""Where the scaler lives and how it gets to the loop: it has the optimizer's lifetime and travels with it (section 1)."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace

from amp_migrate.edits import AddArgument, AddParameter, Edit, InsertAfter, InsertBefore, Template
from amp_migrate.migrate.callers import callers_of, refuse_locked, refuse_unlinked
from amp_migrate.migrate.refusal import Refusal
from amp_migrate.migrate.spelling import Spellings
from amp_migrate.migrate.switch import Switch, SwitchFinder
from amp_migrate.model.calls import CallSite, argument
from amp_migrate.model.effects import Effect
from amp_migrate.model.kinds import Kind
from amp_migrate.model.program import Program
from amp_migrate.model.project import Project
from amp_migrate.model.syntax import FUNCTIONS, LOOPS, Binding, Function, Scope, blocks
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
    homes: dict[Home, list[ast.stmt]] = field(default_factory=dict)
    """Where each scaler may be made: the statements that make its optimizers."""
    access: dict[int, list[Home]] = field(default_factory=dict)
    """Which scalers a scope may see, by id of the scope."""
    edits: dict[Edit, None] = field(default_factory=dict)
    threaded: set[int] = field(default_factory=set)
    optional: dict[int, tuple[Function, str]] = field(default_factory=dict)
    """Functions that may be called without a scaler, and why, by id."""
    depth: dict[int, int] = field(default_factory=dict)
    """In how many loops what is called runs backward, by id of the call."""
    stepped: set[str] = field(default_factory=set)
    """Last parts of the names of the optimizers that migrated loops step."""

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
        return self._beside(list(roots), home, scope, optimizers)

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

    def _beside(self, names: list[str], home: Scope, scope: Scope, optimizers: list[ast.expr]) -> str:
        bindings = [b for n in names for b in self._makers(n, home, scope, optimizers)]
        if self._called_per_epoch(home):
            return self._above_function(home, scope, optimizers)
        self._make(Home(home), self._anchors(bindings, home, scope), scope)
        return self.name

    def _called_per_epoch(self, home: Scope) -> bool:
        """A function that builds an optimizer and runs one epoch with it."""
        if not isinstance(home.node, FUNCTIONS):
            return False
        named = any("epoch" in a.arg and not a.arg.endswith("s") for a in home.parameters())
        sites = [
            s for s in self.program.graph.sites(home.node) if self.program.values.callee(s.call, s.scope) is home.node
        ]
        loops = [a for s in sites for a in self._within(s.call, s.scope.node) if isinstance(a, LOOPS)]
        return named and any(isinstance(a, ast.While) or "epoch" in ast.unparse(a.target).lower() for a in loops)

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

    def _anchors(self, bindings: list[Binding], home: Scope, scope: Scope) -> list[ast.stmt]:
        """The constructions, climbed out of branches and loops that the training loop itself is not in."""
        statements = [b.statement for b in bindings if isinstance(b.statement, ast.stmt)]
        statements = [s for b in bindings for s in self._appends(b, home)] or statements
        return [self._climbed(s, home, scope, statements) for s in statements]

    def _appends(self, binding: Binding, home: Scope) -> list[ast.stmt]:
        """`optimizers = []` filled later by `optimizers.append(...)`."""
        empty = isinstance(binding.value, (ast.List, ast.Dict)) and not (
            getattr(binding.value, "elts", None) or getattr(binding.value, "keys", None)
        )
        target = binding.statement.targets[0] if isinstance(binding.statement, ast.Assign) else None
        name = dotted_name(target) if target is not None else None
        if not empty or name is None:
            return []
        calls = [
            c
            for c in home.calls
            if isinstance(c.func, ast.Attribute) and c.func.attr == "append" and dotted_name(c.func.value) == name
        ]
        return [self._out_of_loops(self.program.module.statement_of(c), binding.statement) for c in calls]

    def _out_of_loops(self, statement: ast.stmt, origin: ast.AST) -> ast.stmt:
        module = self.program.module
        while module.parents[statement] is not module.parents[origin] and isinstance(
            module.parents[statement], ast.stmt
        ):
            parent = module.parents[statement]
            assert isinstance(parent, ast.stmt)
            statement = parent
        return statement

    def _climbed(self, statement: ast.stmt, home: Scope, scope: Scope, makers: list[ast.stmt]) -> ast.stmt:
        """Out of an `if/elif` (or `try`) that makes the optimizer in several branches and does not hold the loop."""
        module = self.program.module
        inside = self._around_loop(scope) if scope is home else set()
        top = statement
        for parent in module.ancestors(statement):
            if isinstance(parent, (ast.ExceptHandler, ast.match_case)):
                continue
            if not isinstance(parent, (ast.If, ast.Try, ast.Match)) or id(parent) in inside:
                break
            branches = [b for b in blocks(parent) if any(self._holds(s, maker) for s in b for maker in makers)]
            others = [b for b in blocks(parent) if b not in branches]
            if len(branches) > 1 or (others and all(isinstance(b[-1], (ast.Raise, ast.Return)) for b in others)):
                top = parent
        return top

    def _holds(self, around: ast.stmt, statement: ast.stmt) -> bool:
        return statement is around or any(a is around for a in self.program.module.ancestors(statement))

    def _around_loop(self, scope: Scope) -> set[int]:
        """Everything around the steps of a scope."""
        around: set[int] = set()
        for call in [*self.program.effects.steps(scope), *self.program.effects.backwards(scope)]:
            around |= {id(n) for n in self.program.module.ancestors(call)}
        return around

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
            self._make(Home(where, where.self_name or "self"), self._anchors(bindings, where, scope), scope)
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
        if self._holds_everything(function, scope, loops):
            self._make(Home(home, top=True), [self._top_of(function, home)], scope)
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
        self.depth[id(site.call)] = self._depth(function)
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

    def _depth(self, function: Function) -> int:
        """In how many loops a function runs backward."""
        inner = self.program.scope(function)
        calls = [c for c in inner.calls if id(c) in self.depth or self.program.effects.is_backward(c, inner)]
        loops = [sum(isinstance(a, LOOPS) for a in self._within(c, function)) + self.depth.get(id(c), 0) for c in calls]
        return max(loops, default=1)

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

    def _holds_everything(self, function: Function, scope: Scope, loops: list[ast.Call]) -> bool:
        """Whether the function runs all epochs itself and is itself called in no loop."""
        if not loops or scope.node is not function:
            return False
        around = [[a for a in self._within(call, function) if isinstance(a, LOOPS)] for call in loops]
        deepest = max(len(found) + self.depth.get(id(call), 0) for found, call in zip(around, loops, strict=True))
        if deepest < 2 and not any(_counts_epochs(loop) for found in around for loop in found):
            return False
        return all(
            not any(isinstance(a, LOOPS) for a in self._within(site.call, site.scope.node))
            for site in self.program.graph.sites(function)
        )

    def _within(self, node: ast.AST, top: ast.AST) -> list[ast.AST]:
        """What `node` is inside of, up to `top`; an expression that a loop iterates over is not inside that loop."""
        found = []
        here = node
        for parent in self.program.module.ancestors(node):
            if parent is top:
                break
            if not (isinstance(parent, (ast.For, ast.AsyncFor)) and parent.iter is here):
                found.append(parent)
            here = parent
        return found

    def _top_of(self, function: Function, home: Scope) -> ast.stmt:
        """The first statement after the docstring, and after a `device` that the function makes itself."""
        body = function.body
        first = 1 if ast.get_docstring(function, clean=False) is not None and len(body) > 1 else 0
        for index, statement in enumerate(body):
            if self.program.effects.of_statement(statement, home) & (Effect.BACKWARD | Effect.STEP):
                break
            made = isinstance(statement, ast.Assign) and any(dotted_name(t) == "device" for t in statement.targets)
            if made and index + 1 < len(body):
                first = index + 1
        return body[first]

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
            self._construction(home, anchor) for home, anchors in self.homes.items() for anchor in self._lasts(anchors)
        ]

    def _construction(self, home: Home, anchor: ast.stmt) -> Edit:
        anchor, moved = (anchor, False) if home.attribute else self._before_epochs(anchor)
        switch = self.switches.at(home.scope, anchor)
        spelling = self.spellings.of(home.scope)
        prefix = f"{home.attribute}." if home.attribute else ""
        scaler = Template(f"{prefix}{self.name} = {spelling.scaler(switch.device_type, switch.enabled, prefix)}")
        statements = (*(Template(line) for line in spelling.choice(switch.enabled, prefix)), scaler)
        span = self.program.module.span(anchor)
        return InsertBefore(span, statements) if home.top or moved else InsertAfter(span, statements)

    def _before_epochs(self, anchor: ast.stmt) -> tuple[ast.stmt, bool]:
        """Out of an epoch loop that rebuilds the optimizer: the scaler keeps its scale over epochs. Says whether it moved."""
        top, moved = anchor, False
        for parent in self.program.module.ancestors(anchor):
            if isinstance(parent, FUNCTIONS):
                break
            if isinstance(parent, (ast.For, ast.AsyncFor)) and "epoch" in ast.unparse(parent.target).lower():
                top, moved = parent, True
        return top, moved

    def _lasts(self, anchors: list[ast.stmt]) -> list[ast.stmt]:
        """One place for each time that optimizers are (re)built: the last of a run, and none inside a training loop."""
        ordered = sorted({id(a): a for a in anchors}.values(), key=lambda a: (a.lineno, a.col_offset))
        first = [a for a in ordered if not self._before_epochs(a)[1]]
        kept: list[ast.stmt] = []
        for anchor in self._after_branches(first or ordered):  # one that is rebuilt between epochs keeps its scaler
            earlier = kept[-1] if kept else None
            if earlier is not None and self._covers(earlier, anchor):
                if self.program.module.parents[earlier] is not self.program.module.parents[anchor]:
                    continue
                if self._quiet_between(earlier, anchor):
                    kept.pop()
            kept.append(anchor)
        return kept

    def _after_branches(self, anchors: list[ast.stmt]) -> list[ast.stmt]:
        """`if sgd: optimizer = ...` and `if adam: optimizer = ...` in one block: one place, after the last `if`."""
        parents = [self.program.module.parents[a] for a in anchors]
        blocks_of = {id(self.program.module.block_of(p)) for p in parents if isinstance(p, ast.If)}
        lone = all(isinstance(p, ast.If) for p in parents) and len({id(p) for p in parents}) > 1
        trains = any(
            self.program.effects.of_statement(p, self.program.module.scope_of(p)) & (Effect.BACKWARD | Effect.STEP)
            for p in parents
            if lone
        )
        last = parents[-1] if parents else None
        return [last] if lone and not trains and len(blocks_of) == 1 and isinstance(last, ast.If) else anchors

    def _covers(self, earlier: ast.stmt, later: ast.stmt) -> bool:
        """Whether `earlier` always ran when `later` runs."""
        block = self.program.module.block_of(earlier)
        around = {id(later), *(id(a) for a in self.program.module.ancestors(later))}
        return any(id(s) in around for s in block)

    def _quiet_between(self, earlier: ast.stmt, later: ast.stmt) -> bool:
        """Whether nothing trains between two constructions in one block."""
        block = self.program.module.block_of(earlier)
        first, last = (next(i for i, s in enumerate(block) if s is x) for x in (earlier, later))
        scope = self.program.module.scope_of(earlier)
        return not any(
            self.program.effects.of_statement(s, scope) & (Effect.BACKWARD | Effect.STEP)
            for s in block[first + 1 : last]
        )

    def switches_for(self, scope: Scope) -> list[Switch]:
        """The switches of the scalers that `scope` may use."""
        here: Scope | None = scope
        while here is not None and id(here) not in self.access:
            here = here.parent
        homes = self.access.get(id(here), []) if here is not None else []
        return [self.switches.at(home.scope, anchor) for home in homes for anchor in self._lasts(self.homes[home])]


def _is_none(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _counts_epochs(loop: ast.AST) -> bool:
    """A loop over epochs, or over a number of steps, rather than over the batches of a loader."""
    if isinstance(loop, ast.While):
        return True
    assert isinstance(loop, (ast.For, ast.AsyncFor))
    counted = isinstance(loop.iter, ast.Call) and (dotted_name(loop.iter.func) or "").rpartition(".")[2] in (
        "range",
        "trange",
        "count",
    )
    return "epoch" in ast.unparse(loop.target).lower() or counted


__all__ = ["Home", "Wiring"]
