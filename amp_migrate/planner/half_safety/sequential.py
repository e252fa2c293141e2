"""A `nn.Sequential` in sight: `seq[-1](seq[:-1](x).float())` computes the same, and its last layer
in float32. So does `seq[-1](data_parallel(seq[:-1], x, ids).float())`, on one device.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from amp_migrate.model.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax import Scope
from amp_migrate.rewrite.edits import Template

_KEEP = {
    "to",
    "cuda",
    "cpu",
    "train",
    "eval",
    "apply",
    "requires_grad_",
    "float",
}
_CHANGES = r"(append|add_module|extend|insert|pop|register_\w*hook)\("
_PARALLEL = "torch.nn.parallel.data_parallel"
_DEEP = 6


def is_sequential(program: Program, call: ast.Call, scope: Scope) -> str | None:
    """The name of the Sequential that a call runs, whatever it ends in; None where it may be
    something else.
    """
    return next(iter(sequences(program, call, scope)), (None,))[0]


def sequences(
    program: Program, call: ast.Call, scope: Scope
) -> list[tuple[str, ast.Call]]:
    """The calls that make the Sequential which a call runs, with its name; nothing where it may be
    something else, or its layers come and go.
    """
    run = sequence_run(program, call)
    name = dotted_name(run) if run is not None else None
    if run is None or name is None or _is_changed(program, name):
        return []
    found: list[tuple[str, ast.Call]] = []
    for made in _made(program, run, name, scope, _DEEP):
        if made is None or made.keywords or not made.args:
            return []
        found.append((name, made))
    return found


def sequence_run(program: Program, call: ast.Call) -> ast.expr | None:
    """What a call runs as `seq(x)`, or as `data_parallel(seq, x, ids)`."""
    if any(isinstance(one, ast.Starred) for one in call.args):
        return None
    if program.canonical(call.func) == _PARALLEL:
        named = all(one.arg is not None for one in call.keywords)
        return call.args[0] if len(call.args) > 1 and named else None
    return call.func if len(call.args) == 1 and not call.keywords else None


def split_call(program: Program, call: ast.Call, name: str) -> Template:
    """`seq[-1](seq[:-1](x).float())` for `seq(x)`."""
    span = program.module.span
    if dotted_name(call.func) == name:
        text = f"{name}[-1]({name}[:-1]($0).float())"
        return Template(text, (span(call.args[0]),))
    parts = [call.func, *call.args[1:], *(k.value for k in call.keywords)]
    words = [f"${i}" for i in range(1, len(call.args))]
    words += [
        f"{k.arg}=${i}"
        for i, k in enumerate(call.keywords, start=len(call.args))
    ]
    text = f"{name}[-1]($0({name}[:-1], {', '.join(words)}).float())"
    return Template(text, tuple(span(one) for one in parts))


def _is_changed(program: Program, name: str) -> bool:
    """Whether the text says that layers come, go or are listened to."""
    last = re.escape(name.rpartition(".")[2])
    text = program.module.text
    return (
        re.search(
            rf"\b{last}(\[[^\]]*\])?\.{_CHANGES}|\b{last}\[[^\]]*\]\s*=[^=]",
            text,
        )
        is not None
    )


def _made(
    program: Program, expr: ast.expr, name: str, scope: Scope, deep: int
) -> Iterator[ast.Call | None]:
    """The calls of `nn.Sequential` behind a name; None for what is none."""
    cls = program.graph.class_around(scope)
    if name.partition(".")[0] == scope.self_name and cls is not None:
        attribute = f"self.{name.partition('.')[2]}"
        family = dict.fromkeys(
            [*program.graph.lineage(cls), *program.graph.heirs(cls)]
        )
        scopes = (program.module.scopes[owner] for owner in family)
        bindings = [
            b for owner in scopes for b in owner.bindings.get(attribute, ())
        ]
    else:
        bindings = list(program.reaching.at(expr, name).bindings)
    if not bindings or deep == 0:
        yield None
        return
    for binding in bindings:
        plain = binding.how == "assign" and binding.index is None
        made = _unkept(program, binding.value if plain else None)
        inner = dotted_name(made) if made is not None else None
        if isinstance(made, ast.Call):
            is_one = program.canonical(made.func) == "torch.nn.Sequential"
            in_sight = made in program.module.parents
            yield made if is_one and in_sight else None
        elif made is None or inner is None:
            yield None
        elif inner != name or "." not in name:  # `net = net.to(device)`
            home = program.module.scope_of(made)
            yield from _made(program, made, inner, home, deep - 1)


def _unkept(program: Program, made: ast.expr | None) -> ast.expr | None:
    """`nn.Sequential(...)` of `nn.Sequential(...).to(device)`."""
    while isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute):
        if (
            made.func.attr not in _KEEP
            or program.canonical(made.func) is not None
        ):
            break
        made = made.func.value
    return made
