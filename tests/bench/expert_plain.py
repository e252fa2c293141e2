"""The plain program behind one that somebody gave AMP by hand, in the whole project.

The eraser of the proof takes out what a rewrite would have put in. What people write beside that is
taken out here: branches on a switch, contexts kept in a name, scalers in tuples and arguments.
Names are told apart by their last part, in all files of the project.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from amp_migrate.rewrite.proof.erase import Eraser
from amp_migrate.rewrite.proof.facts import Introduced
from amp_migrate.rewrite.proof.forms import Forms

_AMP_NAMES = frozenset({"autocast", "GradScaler"})
"""Not `custom_fwd`: what an extension says about autocast belongs to it, not to a loop."""
_TRUE = ast.Constant(True)
_PLAIN = frozenset({"backward", "step"})
_APEX = frozenset({"scale_loss", "initialize", "master_params"})


@dataclass(frozen=True)
class Names:
    """What the AMP of a project is called in it."""

    scalers: set[str] = field(default_factory=set)
    contexts: set[str] = field(default_factory=set)
    makers: set[str] = field(default_factory=set)
    """Functions that make contexts."""
    wrappers: set[str] = field(default_factory=set)
    """Classes that hold a scaler and are called, as timm's NativeScaler, and their objects."""

    @property
    def removed(self) -> set[str]:
        """Names that the plain program has no use for."""
        return self.scalers | self.contexts | self.makers


def last(node: ast.AST | None) -> str:
    """The last part of a dotted name; empty for anything else."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _mentions(node: ast.AST | None, names: set[str] | frozenset[str]) -> bool:
    return node is not None and any(last(child) in names for child in ast.walk(node))


def names_of(trees: list[ast.Module]) -> Names:
    """Collect them until no file adds another."""
    names, before = Names(), -1
    nodes = [node for tree in trees for node in ast.walk(tree)]
    for node in nodes:
        if isinstance(node, ast.ClassDef) and _is_wrapper(node):
            names.wrappers.add(node.name)
        elif isinstance(node, ast.FunctionDef) and _makes_contexts(node):
            names.makers.add(node.name)
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            known = (n for n in node.names if n.asname and n.name in names.wrappers)
            names.wrappers.update(str(n.asname) for n in known)
    while before != (before := sum(map(len, vars(names).values()))):
        for node in nodes:
            for target, value in _bound(node):
                _learn(names, target, value)
    return names


def _is_wrapper(node: ast.ClassDef) -> bool:
    own = [s for s in node.body if isinstance(s, ast.FunctionDef) and s.name == "__call__"]
    return _mentions(node, {"GradScaler"}) and any(_mentions(s, _PLAIN) for s in own)


def _makes_contexts(node: ast.FunctionDef) -> bool:
    returned = [s.value for s in ast.walk(node) if isinstance(s, ast.Return)]
    return any(_mentions(value, {"autocast"}) for value in returned) and not _mentions(node, _PLAIN)


def _bound(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield target, node.value
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        yield node.target, node.value
    elif isinstance(node, ast.Call):
        for entry in node.keywords:
            if entry.arg is not None:
                yield ast.Name(entry.arg), entry.value


def _learn(names: Names, target: ast.expr, value: ast.expr) -> None:
    name = last(target)
    if not name:
        return
    made = {last(c.func) for c in ast.walk(value) if isinstance(c, ast.Call)}
    if "GradScaler" in made or last(value) in names.scalers:
        names.scalers.add(name)
    elif made & names.wrappers and not isinstance(value, (ast.Tuple, ast.List)):
        names.wrappers.add(name)
    elif _is_context(names, value):
        names.contexts.add(name)


def _is_context(names: Names, value: ast.expr) -> bool:
    known = {"autocast"} | names.makers | names.contexts
    if isinstance(value, ast.IfExp):
        return _is_context(names, value.body) or _is_context(names, value.orelse)
    if isinstance(value, ast.Call):
        partial = last(value.func) == "partial" and value.args
        return last(value.args[0] if partial else value.func) in known
    return last(value) in known


class Lenient(Forms):
    """AMP in any spelling that people use."""

    def __init__(self, names: Names) -> None:
        super().__init__(Introduced())
        self.names = names

    def is_scaler(self, node: ast.AST) -> bool:
        return last(node) in self.names.scalers

    def is_region(self, item: ast.withitem) -> bool:
        return _is_context(self.names, item.context_expr)

    def is_constructor(self, call: ast.AST, disabled: bool = False) -> bool:
        return _mentions(call, {"GradScaler"})

    def is_decorator(self, node: ast.expr) -> bool:
        return last(node.func if isinstance(node, ast.Call) else node) in _AMP_NAMES


class Plain(Eraser):
    """Takes the AMP of people out of one module."""

    def __init__(self, names: Names) -> None:
        super().__init__(Introduced())
        self.names = names
        self.forms = Lenient(names)

    def visit_Import(self, node: ast.Import) -> ast.AST | list[ast.stmt]:
        """Import of nothing but AMP goes."""
        node.names = [a for a in node.names if not a.name.endswith(".amp")]
        return node if node.names else self._gone(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | list[ast.stmt]:
        """Its names go."""
        gone = _AMP_NAMES | self.names.makers
        package = (node.module or "").split(".")[0]
        is_amp = package == "torch" or package == "apex" and bool(self.names.scalers)
        node.names = [
            a for a in node.names if a.name not in gone and not (is_amp and a.name == "amp")
        ]
        return node if node.names else self._gone(node)

    def visit_With(self, node: ast.With) -> ast.AST | list[ast.stmt]:
        """Of `with autocast("cuda") and no_grad():` Python enters the last context alone."""
        for item in node.items:
            joined = item.context_expr
            if isinstance(joined, ast.BoolOp) and isinstance(joined.op, ast.And):
                if any(_is_context(self.names, one) for one in joined.values[:-1]):
                    item.context_expr = joined.values[-1]
        return super().visit_With(node)

    def visit_For(self, node: ast.For) -> ast.AST | list[ast.stmt]:
        """A loop over what a scaler keeps, `for one in scaler._found_inf_per_device(o).values()`."""
        kept = any(map(self.forms.is_scaler, ast.walk(node.iter)))
        return self._gone(node) if kept else super().visit_For(node)

    def visit_Try(self, node: ast.Try) -> ast.AST | list[ast.stmt]:
        """An import of AMP that may fail, and what stands in for it."""
        node.body = self._block(node.body)
        return self.generic_visit(node) if node.body else self._gone(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """One that makes contexts goes whole."""
        if node.name in self.names.makers:
            return self._gone(node)  # type: ignore[return-value]
        return super().visit_FunctionDef(node)

    def _is_parameter(self, argument: ast.arg) -> bool:
        return argument.arg in self.names.removed

    def _drop_parameters(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        arguments = node.args
        first = len(arguments.args) - len(arguments.defaults)
        for index in reversed(range(len(arguments.args))):
            if self._is_parameter(arguments.args[index]):
                self._gone(arguments.args.pop(index))
                if index >= first:
                    arguments.defaults.pop(index - first)
        super()._drop_parameters(node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST | list[ast.stmt]:
        """Scalers, contexts and what is kept of them."""
        names = [last(target) for target in node.targets]
        if all(name in self.names.removed for name in names):
            return self._gone(node)
        if self._is_amp_read(node.value) or any(map(self._is_amp_entry, node.targets)):
            return self._gone(node)
        return super().visit_Assign(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | list[ast.stmt]:
        """`self.scaler: GradScaler`, and what is kept with a type."""
        if last(node.target) in self.names.removed:
            return self._gone(node)
        return super().visit_AnnAssign(node)

    def _is_amp_entry(self, target: ast.expr) -> bool:
        key = target.slice if isinstance(target, ast.Subscript) else None
        return isinstance(key, ast.Constant) and str(key.value) in self.names.scalers

    def _is_amp_read(self, value: ast.expr) -> bool:
        """`scaler.state_dict()` and the like."""
        asked = value.func.value if _is_method(value) else None
        is_own = asked is not None and self.forms.is_scaler(asked)
        return is_own and last(value.func) not in ("scale", "step")  # type: ignore[attr-defined]

    def visit_Expr(self, node: ast.Expr) -> ast.AST | list[ast.stmt]:
        """Calls of the scaler that are no step."""
        call = node.value
        if _is_method(call) and self.forms.is_scaler(call.func.value):  # type: ignore[attr-defined]
            if last(call.func) not in ("step", "scale"):  # type: ignore[attr-defined]
                return self._gone(node)
        return super().visit_Expr(node)

    def visit_Tuple(self, node: ast.Tuple) -> ast.AST:
        """Scalers among what is returned or unpacked."""
        node.elts = [e for e in node.elts if last(e) not in self.names.removed]
        return self.generic_visit(node)

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        """A scaler's state goes, whatever the key."""
        pairs = [
            pair
            for pair in zip(node.keys, node.values, strict=True)
            if not _mentions(pair[1], self.names.scalers)
        ]
        node.keys, node.values = [key for key, _ in pairs], [value for _, value in pairs]
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Arguments that hold scalers or contexts; `scaler.scale(loss)` is the loss."""
        is_step = _is_method(node) and self.forms.is_scaler(node.func.value)  # type: ignore[attr-defined]
        if is_step and last(node.func) == "scale" and len(node.args) == 1:
            return self.visit(node.args[0])  # type: ignore[no-any-return]
        if is_step and last(node.func) in ("get_scale", "is_enabled"):
            return ast.Constant(1.0 if last(node.func) == "get_scale" else True)
        if is_step and last(node.func) == "state_dict":
            return ast.Dict([], [])
        if is_step and last(node.func) == "step":
            node.args, node.keywords = by_position(node)
        node.args = [a for a in node.args if last(a) not in self.names.removed]
        node.keywords = [
            k
            for k in node.keywords
            if last(k.value) not in self.names.removed and k.arg not in self.names.removed
        ]
        return super().visit_Call(node)

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        """Of two branches, the one with AMP; none that holds nothing else."""
        if isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.And):
            left = [v for v in node.test.values if _truth(v, self.names) is not True]
            node.test = ast.BoolOp(ast.And(), left) if len(left) > 1 else (left or [_TRUE])[0]
        kept = chosen(node, self.names)
        if kept is not None:
            return self._block(kept)
        had = len(node.body)
        node.body, node.orelse = self._block(node.body), self._block(node.orelse)
        if had and not node.body and not node.orelse:
            return self._gone(node)
        if not node.body:
            node.body, node.orelse = node.orelse, []
            node.test = ast.UnaryOp(ast.Not(), node.test)
        if node.orelse and _text(node.body) == _text(node.orelse):
            return node.body
        node.test = self.visit(node.test)
        return node


def by_position(step: ast.Call) -> tuple[list[ast.expr], list[ast.keyword]]:
    """The arguments of `scaler.step(optimizer=o)` as those of `scaler.step(o)`."""
    named = [k for k in step.keywords if k.arg == "optimizer"]
    return [k.value for k in named] + step.args, [k for k in step.keywords if k not in named]


def _is_method(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)


def _text(block: list[ast.stmt]) -> str:
    return "\n".join(map(ast.unparse, block))


def chosen(node: ast.If, names: Names) -> list[ast.stmt] | None:
    """The branch that runs with AMP; None where the condition is about something else."""
    truth = _truth(node.test, names)
    if truth is not None:
        return node.body if truth else node.orelse
    own = names.scalers | names.wrappers
    apex = [any(map(_is_apex, block)) for block in (node.body, node.orelse)]
    if own and apex[0] != apex[1] and not _is_arm(node.orelse):
        return node.orelse if apex[0] else node.body
    if own and apex[0]:
        return node.orelse
    body, other = (any(_steps(s, own) for s in block) for block in (node.body, node.orelse))
    plain = [any(_mentions(s, _PLAIN) for s in block) for block in (node.body, node.orelse)]
    if body and not other and plain[1]:
        return node.body
    if other and not body and plain[0] and node.orelse:
        return _last_arm(node, own)
    regions = [any(_mentions(s, {"autocast"}) for s in b) for b in (node.body, node.orelse)]
    if node.orelse and regions[0] != regions[1] and _is_pair(node, names):
        return node.body if regions[0] else node.orelse
    return None


def _is_arm(block: list[ast.stmt]) -> bool:
    """Whether an `else` is an `elif`."""
    return len(block) == 1 and isinstance(block[0], ast.If)


def _is_apex(node: ast.stmt) -> bool:
    """Whether a statement has apex's AMP, which programs keep beside that of torch."""
    return any(
        isinstance(one, ast.ImportFrom)
        and one.module == "apex"
        or isinstance(one, ast.Attribute)
        and one.attr in _APEX
        and last(one.value) == "amp"
        for one in _outside_branches(node)
    )


def _outside_branches(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a statement but for those of an `if` in it, which is asked itself."""
    if not isinstance(node, ast.If):
        yield node
        for child in ast.iter_child_nodes(node):
            yield from _outside_branches(child)


def _last_arm(node: ast.If, own: set[str]) -> list[ast.stmt]:
    """`if amp == "none": ... elif amp == "torch": ...` without an else: the switch has no third."""
    arm = node.orelse[0]
    is_switch = isinstance(arm, ast.If) and not arm.orelse and len(node.orelse) == 1
    if not is_switch or not isinstance(arm, ast.If) or not any(_steps(s, own) for s in arm.body):
        return node.orelse
    both = (node.test, arm.test)
    left = {ast.dump(t.left) if isinstance(t, ast.Compare) else ast.dump(t) for t in both}
    return arm.body if len(left) == 1 else node.orelse


def _is_pair(node: ast.If, names: Names) -> bool:
    """Whether both branches are the same program but for AMP."""
    import copy

    plain = Plain(names)
    body, other = (_text(plain._block(copy.deepcopy(b))) for b in (node.body, node.orelse))
    return body == other


def _steps(node: ast.AST, names: set[str]) -> bool:
    """Whether a scaler, or a class that holds one, is called."""
    for child in ast.walk(node):
        if isinstance(child, ast.Call) and (
            last(child.func) in names or _is_method(child) and last(child.func.value) in names  # type: ignore[attr-defined]
        ):
            return True
    return False


def _truth(test: ast.expr, names: Names) -> bool | None:
    """What a condition on the scaler is where AMP is on."""
    known = names.scalers | names.wrappers
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _truth(test.operand, names)
        return None if inner is None else not inner
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and last(test.left) in known:
        right = test.comparators[0]
        if isinstance(right, ast.Constant) and right.value is None:
            return isinstance(test.ops[0], ast.IsNot)
    if _is_method(test) and last(test.func) == "is_enabled":  # type: ignore[attr-defined]
        return True
    return True if last(test) in known else None


def plain(text: str, names: Names) -> str:
    """The module without AMP; the same text where it has none."""
    tree = ast.parse(text)
    before = ast.dump(tree)
    Plain(names).run(tree)
    return text if ast.dump(tree) == before else ast.unparse(ast.fix_missing_locations(tree)) + "\n"
