"""The shapes of AMP expressions that a rewrite may contain: anything else is left for the
comparison to find.
"""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amp_migrate.rewrite.proof.facts import Introduced

PURE_NODES = (
    ast.Name,
    ast.Attribute,
    ast.Constant,
    ast.Compare,
    ast.BoolOp,
    ast.BinOp,
    ast.UnaryOp,
    ast.IfExp,
    ast.Subscript,
    ast.Call,
    ast.keyword,
    ast.Tuple,
    ast.JoinedStr,
    ast.FormattedValue,
    ast.expr_context,
    ast.boolop,
    ast.operator,
    ast.unaryop,
    ast.cmpop,
)
PURE_BUILTINS = frozenset(
    {"str", "isinstance", "getattr", "hasattr", "bool", "len"}
)
PURE_METHODS = frozenset(
    {
        "current_accelerator",
        "get_device_capability",
        "get_scale",
        "is_available",
        "is_bf16_supported",
        "is_enabled",
        "startswith",
    }
)


def dotted(node: ast.AST) -> str | None:
    """`a.b.c` of a name or an attribute chain, else None."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(parts)])


def same(left: ast.AST, right: ast.AST) -> bool:
    """Whether two (small) expressions are the same code."""
    return ast.dump(left) == ast.dump(right)


class Forms:
    """Recognises what one rewrite may have introduced."""

    def __init__(self, introduced: Introduced) -> None:
        self.introduced = introduced

    @cached_property
    def _regions(self) -> frozenset[str] | None:
        if self.introduced.regions is None:
            return None
        headers = (
            ast.parse(f"with {header}: pass").body[0]
            for header in self.introduced.regions
        )
        items = [
            item
            for node in headers
            if isinstance(node, ast.With)
            for item in node.items
        ]
        return frozenset(ast.dump(item.context_expr) for item in items)

    @cached_property
    def _constructors(self) -> frozenset[str] | None:
        if self.introduced.constructors is None:
            return None
        return _dumps(self.introduced.constructors)

    @cached_property
    def _values(self) -> frozenset[str] | None:
        return (
            None
            if self.introduced.values is None
            else _dumps(self.introduced.values)
        )

    @cached_property
    def _decorators(self) -> frozenset[str]:
        option = self.introduced.option
        own = option.decorators if option is not None else frozenset()
        return _dumps(self.introduced.decorators | own)

    @cached_property
    def _declarations(self) -> frozenset[str]:
        option = self.introduced.option
        lines = option.statements if option is not None else frozenset()
        return frozenset(ast.dump(ast.parse(line).body[0]) for line in lines)

    def is_declaration(self, node: ast.stmt) -> bool:
        """The statement that declares the program's own switch."""
        return bool(self._declarations) and ast.dump(node) in self._declarations

    def is_option(self, name: object, default: ast.expr | None) -> bool:
        """The program's own switch as a parameter or an entry, with its default."""
        option = self.introduced.option
        if option is None or not isinstance(default, ast.Constant):
            return False
        return (name, default.value) == (option.name, option.default)

    def is_decorator(self, node: ast.expr) -> bool:
        """A declared decorator."""
        return bool(self._decorators) and ast.dump(node) in self._decorators

    def is_scaler(self, node: ast.AST) -> bool:
        """A declared scaler, read or set."""
        return (
            isinstance(node, (ast.Name, ast.Attribute))
            and dotted(node) in self.introduced.scalers
        )

    def is_new_name(self, node: ast.AST) -> bool:
        """A declared name other than a scaler."""
        return (
            isinstance(node, (ast.Name, ast.Attribute))
            and dotted(node) in self.introduced.names
        )

    def method(
        self, node: ast.AST, name: str, arguments: int
    ) -> list[ast.expr] | None:
        """Arguments of `S.name(...)` on a declared scaler, when it has that many and no keyword."""
        if (
            not isinstance(node, ast.Call)
            or not isinstance(node.func, ast.Attribute)
            or node.func.attr != name
        ):
            return None
        if (
            node.keywords
            or len(node.args) != arguments
            or not self.is_scaler(node.func.value)
        ):
            return None
        return (
            None
            if any(isinstance(argument, ast.Starred) for argument in node.args)
            else node.args
        )

    def is_region(self, item: ast.withitem) -> bool:
        """`torch.autocast(...)` in any of its spellings, nothing bound by `as`."""
        call = item.context_expr
        if item.optional_vars is not None or not isinstance(call, ast.Call):
            return False
        if not self._well_formed(
            call,
            "autocast",
            frozenset({"device_type", "dtype", "enabled", "cache_enabled"}),
        ):
            return False
        return self._regions is None or ast.dump(call) in self._regions

    def is_constructor(self, call: ast.AST, disabled: bool = False) -> bool:
        """`torch.amp.GradScaler(...)` in any of its spellings, with the literal `enabled=False`
        only if `disabled`.
        """
        allowed = frozenset({"device", "enabled"})
        if not isinstance(call, ast.Call) or not self._well_formed(
            call, "GradScaler", allowed
        ):
            return False
        switch = keyword(call, "enabled")
        if disabled != (
            isinstance(switch, ast.Constant) and switch.value is False
        ):
            return False
        return (
            self._constructors is None or ast.dump(call) in self._constructors
        )

    def whole_sequence(self, call: ast.Call) -> ast.Call | None:
        """`S(x)` for `S[-1](S[:-1](x).float())` of a declared Sequential."""
        holder = (
            call.func.value if isinstance(call.func, ast.Subscript) else None
        )
        name = dotted(holder) if holder is not None else None
        found = [n for n in ast.walk(call) if isinstance(n, ast.Call)]
        if (
            holder is None
            or name not in self.introduced.sequences
            or len(found) < 3
        ):
            return None
        inner = found[2]  # of `S[-1](...)`, `(...).float()` and `S[:-1](x)`
        first = f"{name}[:-1]"
        if not isinstance(inner.func, ast.Subscript):  # `data_parallel(S, x)`
            if not inner.args or ast.unparse(inner.args[0]) != first:
                return None
            func, given = inner.func, [holder, *inner.args[1:]]
        elif inner.keywords or len(inner.args) != 1:
            return None
        else:
            func, given = holder, inner.args
        whole = ast.Call(func, given, inner.keywords)
        written = ast.parse(
            f"{name}[-1]({ast.unparse(inner)}.float())", mode="eval"
        ).body
        is_first = ast.unparse(inner.func) == first or func is inner.func
        return (
            ast.copy_location(whole, call)
            if is_first and same(call, written)
            else None
        )

    def is_value_of_name(self, value: ast.expr) -> bool:
        """What a new name may be set to."""
        return self.is_pure(value) and (
            self._values is None or ast.dump(value) in self._values
        )

    def is_prologue(self, node: ast.stmt) -> bool:
        """`if S is None: S = torch.amp.GradScaler(..., enabled=False)`, with which absent scalers
        switch AMP off.
        """
        made = (
            only_of(node.body)
            if isinstance(node, ast.If) and not node.orelse
            else None
        )
        if (
            not isinstance(node, ast.If)
            or not isinstance(made, ast.Assign)
            or len(made.targets) != 1
        ):
            return False
        if not self.is_scaler(made.targets[0]) or not self.is_constructor(
            made.value, disabled=True
        ):
            return False
        test = node.test
        if (
            not isinstance(test, ast.Compare)
            or len(test.ops) != 1
            or not isinstance(test.ops[0], ast.Is)
        ):
            return False
        return is_none(test.comparators[0]) and dotted(test.left) == dotted(
            made.targets[0]
        )

    def _well_formed(
        self, call: ast.Call, what: str, allowed: frozenset[str]
    ) -> bool:
        callee, torch = dotted(call.func), self.introduced.torch
        if callee not in {
            what,
            f"{torch}.{what}",
            f"{torch}.amp.{what}",
            f"{torch}.cuda.amp.{what}",
        }:
            return False
        if callee == f"{torch}.cuda.amp.{what}" and (
            call.args or device(call) is not None
        ):
            return False
        if len(call.args) > 1 or any(
            entry.arg not in allowed for entry in call.keywords
        ):
            return False
        place = device(call)
        return (place is None or self._is_device_type(place)) and all(
            self._is_value(entry) for entry in call.keywords
        )

    def _is_device_type(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Constant):
            return isinstance(node.value, str) and ":" not in node.value
        if isinstance(node, ast.IfExp):
            return self.is_pure(node.test) and all(
                self._is_device_type(part) for part in (node.body, node.orelse)
            )
        # Whether a name holds a bare type, `additions` proves.
        return (
            isinstance(node, (ast.Name, ast.Attribute))
            and dotted(node) is not None
            or (
                isinstance(node, ast.Attribute)
                and node.attr == "type"
                and self.is_pure(node)
            )
        )

    def _is_value(self, entry: ast.keyword) -> bool:
        if entry.arg == "dtype":
            halves = {
                f"{self.introduced.torch}.float16",
                f"{self.introduced.torch}.bfloat16",
            }
            return dotted(entry.value) in halves | self.introduced.names
        return self.is_pure(entry.value)

    def is_pure(self, node: ast.expr) -> bool:
        """Whether evaluating `node` has no effect on the program (attribute reads and known
        queries).
        """
        nodes = list(ast.walk(node))
        return all(isinstance(child, PURE_NODES) for child in nodes) and all(
            self._is_query(child)
            for child in nodes
            if isinstance(child, ast.Call)
        )

    def _is_query(self, call: ast.Call) -> bool:
        if isinstance(call.func, ast.Name):
            first = call.args[0] if len(call.args) == 1 else None
            if call.func.id == "next" and isinstance(first, ast.Call):
                return isinstance(
                    first.func, ast.Attribute
                ) and first.func.attr in {
                    "parameters",
                    "buffers",
                }
            return call.func.id in PURE_BUILTINS
        if not isinstance(call.func, ast.Attribute):
            return False
        if call.func.attr in {"parameters", "buffers"}:
            return True
        return (
            call.func.attr in PURE_METHODS
            or dotted(call.func) == f"{self.introduced.torch}.device"
        )


def only_of(body: list[ast.stmt]) -> ast.stmt | None:
    """The statement of a block that holds just one."""
    return body[0] if len(body) == 1 else None


def is_none(node: ast.expr) -> bool:
    """The constant None."""
    return isinstance(node, ast.Constant) and node.value is None


def _dumps(sources: frozenset[str]) -> frozenset[str]:
    return frozenset(
        ast.dump(ast.parse(source, mode="eval").body) for source in sources
    )


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """The value of a keyword argument."""
    return next(
        (entry.value for entry in call.keywords if entry.arg == name), None
    )


def device(call: ast.Call) -> ast.expr | None:
    """The device type given to an autocast or a GradScaler."""
    return (
        call.args[0]
        if call.args
        else keyword(call, "device_type") or keyword(call, "device")
    )
