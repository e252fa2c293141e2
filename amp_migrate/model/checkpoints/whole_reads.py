"""Who reads a dict as a whole, where a key more would show: a loop over its items, `**state`, its
length, an unpacking, a comparison. Who asks for keys by name sees no difference.

A dict is followed through variables, attributes, parameters and results; what is saved to a file
may come back from every `torch.load` that is not shown to read a model's weights.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeAlias

from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.checkpoints.asked_keys import (
    SHOWN,
    WRITTEN,
    is_only_asked,
    lists_to_ask,
)
from amp_migrate.model.checkpoints.forms import (
    is_of_tensors,
    is_other_file,
    is_text,
    keys_of,
    lacks_one,
    literal,
    skips_other_names,
)
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Scope
from amp_migrate.records import NamedTuple

_BY_KEY = frozenset(
    "get pop setdefault update clear __getitem__ __contains__".split()
)
_AS_WHOLE = {"items", "values", "keys", "popitem", "__iter__", "__len__"}
_COPIES = frozenset(
    "copy.copy copy.deepcopy dict OrderedDict collections.OrderedDict".split()
)
_COUNTED = frozenset(
    "set frozenset list tuple sorted len iter next zip enumerate map filter max min vars".split()
)
_ENDS = (
    ast.Expr,
    ast.If,
    ast.While,
    ast.Assert,
    ast.FormattedValue,
    ast.UnaryOp,
    ast.Delete,
)
_PASSED_UP = (ast.BoolOp, ast.NamedExpr, ast.Await, ast.IfExp)
_BUDGET = 2_000
_ANY = "any element"


Places: TypeAlias = frozenset[tuple[str, tuple[object, ...]]]
"""What a dict is handed to out of sight, and where in that it lies."""


class Reader(NamedTuple):
    """A place that reads a dict as a whole, or hands it to where nobody sees."""

    program: Program
    node: ast.expr


class _Held(NamedTuple):
    program: Program
    node: ast.expr
    path: tuple[object, ...]
    """The keys under which the dict lies in what `node` gives."""


def reader_of(program: Program, made: ast.expr) -> Reader | None:
    """The first that reads a dict as a whole, of those that follow from where it is made."""
    walk = _Walk(_Held(program, made, ()), keys_of(made), loaded=False)
    return next(walk.readers(), None)


def reader_of_names(program: Program, names: ast.expr) -> Reader | None:
    """The first that reads all of `locals()` or `vars(self)`, or hands them out of sight, where
    they may be written as text.
    """
    first = _Held(program, names, ())
    walk = _Walk(first, frozenset(), loaded=False, written=True)
    return next(walk.readers(), None)


def saved_places(program: Program, made: ast.expr) -> Places:
    """Where a dict lies in what is saved: `("optimizers",)` in `{"optimizers": made}`."""
    walk = _Walk(_Held(program, made, ()), keys_of(made), loaded=False)
    list(walk.readers())
    return frozenset(walk.saved)


def reader_of_files(
    program: Program, made: ast.expr, places: Places
) -> Reader | None:
    """The first that reads as a whole what lies at one of the places of a file that is loaded."""
    keys = keys_of(made)
    for scope in program.module.scopes.values():
        for call in scope.calls:
            if program.canonical(
                call.func
            ) == "torch.load" and not is_other_file(program, call):
                for place in {one for _, one in places} or {()}:
                    first = _Held(program, call, place)
                    walk = _Walk(first, keys, loaded=True)
                    found = list(walk.readers())
                    if found and not walk.weights:
                        return found[0]
    return None


class _Walk:
    """What becomes of one dict."""

    def __init__(
        self,
        first: _Held,
        keys: frozenset[object],
        loaded: bool,
        written: bool = False,
    ) -> None:
        self.keys = keys
        self.loaded = loaded
        self.written = written
        """Whether what prints or saves it reads it: so do those that nobody sees."""
        self.saved: set[tuple[str, tuple[object, ...]]] = set()
        self.weights = False
        """Whether it is given to `load_state_dict`, or its items are renamed one by one."""
        self._waiting = [first]
        self._seen: set[tuple[object, str, tuple[object, ...]]] = set()
        self._paths: dict[ast.expr, set[tuple[object, ...]]] = {}
        """Where each expression was found to hold it: a `state_dict` that may hold those of its
        own class is followed into one of them, not into those that these hold.
        """

    def readers(self) -> Iterator[Reader]:
        """Those that read it as a whole."""
        for steps, held in enumerate(self._waiting):  # grows while it is read
            is_bounded = steps <= _BUDGET
            if not held.path and lacks_one(held.program, held.node, self.keys):
                continue
            if not (is_bounded and self._use(held)):
                yield Reader(held.program, held.node)

    def _up(
        self, held: _Held, node: ast.AST, path: tuple[object, ...] | None = None
    ) -> bool:
        assert isinstance(node, ast.expr)
        inner = held.path if path is None else path
        paths = self._paths.setdefault(node, set())
        within = [n for n in range(1, len(inner) + 1) if inner[n:] in paths]
        if inner not in paths and len(within) <= 1:
            paths.add(inner)
            self._waiting.append(held._replace(node=node, path=inner))
        return True

    def _use(self, held: _Held) -> bool:
        """Follow one use; False where it reads the whole, or leads out of sight."""
        module, node = held.program.module, held.node
        parent = module.parents[node]
        if isinstance(parent, ast.Subscript):
            return self._entry(held, parent, parent.slice)
        if isinstance(parent, ast.Attribute):
            return self._attribute(held, parent)
        if isinstance(parent, ast.Compare):
            return all(
                isinstance(o, (ast.In, ast.NotIn, ast.Is, ast.IsNot))
                for o in parent.ops
            )
        if isinstance(parent, (ast.Call, ast.keyword)):
            return self._handed(held, parent)
        if isinstance(parent, ast.Dict):
            key = (
                parent.keys[parent.values.index(node)]
                if node in parent.values
                else None
            )
            inner = (literal(key), *held.path) if key is not None else held.path
            return self._up(held, parent, inner)
        if isinstance(parent, _PASSED_UP):
            self._kept(held, parent)
            return self._up(held, parent)
        if isinstance(parent, (ast.Tuple, ast.List)):
            return self._up(held, parent, (parent.elts.index(node), *held.path))
        if isinstance(parent, ast.ListComp) and parent.elt is node:
            return self._up(held, parent, (_ANY, *held.path))
        if isinstance(parent, ast.Return):
            return self._returned(held)
        if isinstance(parent, (ast.For, ast.comprehension)):
            return bool(held.path) or self._is_renamed(held, parent)
        if isinstance(parent, ast.FormattedValue) and self.written:
            return False
        return isinstance(parent, _ENDS) or self._kept(held, parent)

    def _entry(self, held: _Held, read: ast.expr, key: ast.expr | None) -> bool:
        """Whether reading one entry shows no other key."""
        if (
            held.path
            and held.path[0] in (_ANY, literal(key))
            and not isinstance(read, ast.Name)
        ):
            return self._up(held, read, held.path[1:])
        return True

    def _attribute(self, held: _Held, asked: ast.Attribute) -> bool:
        call = held.program.module.parents[asked]
        if not (isinstance(call, ast.Call) and call.func is asked):
            return True
        if asked.attr in _BY_KEY:
            return self._entry(held, call, call.args[0] if call.args else None)
        if asked.attr == "copy":
            return self._up(held, call)
        if asked.attr not in _AS_WHOLE or held.path:
            return True
        around = held.program.module.parents[call]
        if asked.attr == "keys" and is_only_asked(held.program, around):
            return True
        return isinstance(
            around, (ast.For, ast.comprehension)
        ) and self._is_renamed(held, around)

    def _is_renamed(
        self, held: _Held, loop: ast.For | ast.comprehension
    ) -> bool:
        """`{k.replace(".module", ""): v for k, v in state.items()}`: so are weights read; of a
        checkpoint, whose entries are of many kinds, nothing would come.
        """
        if isinstance(loop, ast.For) and skips_other_names(held.program, loop):
            return True
        parent = held.program.module.parents[loop]
        stores = isinstance(loop, ast.For) and any(
            isinstance(one, ast.Subscript) and isinstance(one.ctx, ast.Store)
            for statement in loop.body
            for one in ast.walk(statement)
        )
        renamed = self.loaded and (stores or isinstance(parent, ast.DictComp))
        self.weights = self.weights or renamed
        return renamed

    def _returned(self, held: _Held) -> bool:
        scope = held.program.module.scope_of(held.node)
        if isinstance(scope.node, FUNCTIONS):
            for site in held.program.graph.sites(scope.node):
                self._up(held, site.call)
        return True

    def _kept(self, held: _Held, parent: ast.AST) -> bool:
        """`state = ...`, `self.state = ...`, `start, state = ...`; what is unpacked where it is
        loaded is a list or a tuple: unpacking a dict gives its keys.
        """
        targets = getattr(parent, "targets", None) or [
            getattr(parent, "target", None)
        ]
        is_sequence = self.loaded and not held.path
        if is_sequence and all(isinstance(t, ast.Tuple) for t in targets):
            return True
        return all(self._set(held, target, parent) for target in targets)

    def _set(self, held: _Held, target: ast.expr | None, by: ast.AST) -> bool:
        if isinstance(target, ast.Name):
            self._hold(
                held, held.program.module.scope_of(target), target.id, by
            )
        elif isinstance(target, ast.Attribute):
            self._hold_attribute(held.program, target.attr, held.path)
        elif isinstance(target, (ast.Tuple, ast.List)) and held.path:
            inner = held._replace(path=held.path[1:])
            index = held.path[0]
            return all(
                self._set(inner, part, by)
                for place, part in enumerate(target.elts)
                if index in (_ANY, place)
            )
        else:
            return False
        return True

    def _hold(
        self, held: _Held, scope: Scope, name: str, by: ast.AST | None = None
    ) -> None:
        """Follow the reads of a name, of those in its own body what `by` binds."""
        program, home = held.program, scope.lookup(name) or scope
        if (by or home, name, held.path) in self._seen:
            return
        self._seen.add((by or home, name, held.path))
        module = program.module
        for node in list(module.parents):
            if (
                isinstance(node, ast.Name)
                and node.id == name
                and isinstance(node.ctx, ast.Load)
            ):
                if module.scope_of(node).lookup(name) is home:
                    found = (
                        program.reaching.at(node, name).bindings
                        if by is not None
                        else ()
                    )
                    if not found or any(one.statement is by for one in found):
                        self._waiting.append(held._replace(node=node))

    def _hold_attribute(
        self, program: Program, name: str, path: tuple[object, ...]
    ) -> None:
        if (program, name, path) in self._seen:
            return
        self._seen.add((program, name, path))
        for node in list(program.module.parents):
            is_read = isinstance(node, ast.Attribute) and isinstance(
                node.ctx, ast.Load
            )
            if (
                is_read
                and isinstance(node, ast.Attribute)
                and node.attr == name
            ):
                self._waiting.append(_Held(program, node, path))

    # -- what it is handed to

    def _handed(self, held: _Held, parent: ast.Call | ast.keyword) -> bool:
        call = (
            held.program.module.parents[parent]
            if isinstance(parent, ast.keyword)
            else parent
        )
        if isinstance(parent, ast.keyword) and parent.arg is None:
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
                if call.func.id == "dict":
                    return self._up(held, call)
            return bool(held.path) or is_text(call)
        if not isinstance(call, ast.Call):
            return False  # `class Net(Base, state=state)`
        func = call.func
        if func is held.node:
            return True  # a function of the same name: no dict is called
        name = held.program.canonical(func) or (
            func.id if isinstance(func, ast.Name) else ""
        )
        if name in _COPIES:
            return self._up(held, call)
        if name in _COUNTED:
            return bool(held.path) or lists_to_ask(held.program, call)
        if (
            isinstance(func, ast.Attribute)
            and func.attr == "load_state_dict"
            and not held.path
        ):
            self.weights = True
            return True
        if self.written and name in WRITTEN:
            return False
        if self.loaded and is_of_tensors(name):
            return True
        return name in SHOWN or is_text(call) or self._followed(held, call)

    def _followed(self, held: _Held, call: ast.Call) -> bool:
        """Into the function that a call runs; out of sight one saves what is made, and may do
        anything with what is loaded.
        """
        program, scope = held.program, held.program.module.scope_of(call)
        there: tuple[Program, ast.AST] | None = None
        function = program.values.callee(call, scope)
        cls = program.graph.class_named(call.func, scope)
        if function is None and cls is not None:
            function = program.graph.method(cls, "__init__")
        if function is not None:
            there = (program, function)
        else:
            there = program.values.abroad(call.func, scope)
        if there is None or not isinstance(there[1], FUNCTIONS):
            self.saved.add((program.canonical(call.func) or "", held.path))
            return not self._is_asked or bool(held.path) and not self.written
        home, body = there[0], there[1]
        inner = home.scope(body)
        bound = inner.takes_receiver
        names = [
            one.arg
            for one in inner.parameters()
            if argument(call, inner, one.arg, bound) is held.node
        ]
        for name in names:
            self._hold(held._replace(program=home), inner, name)
        return bool(names) or not self._is_asked

    @property
    def _is_asked(self) -> bool:
        """Whether nothing may become of it out of sight."""
        return self.loaded or self.written
