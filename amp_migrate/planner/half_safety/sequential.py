"""A `nn.Sequential` in sight that ends in a sigmoid: `seq[-1](seq[:-1](x).float())` computes the
same, and the sigmoid in float32.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from amp_migrate.model.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax import Scope

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


def ends_in_sigmoid(
    program: Program, call: ast.Call, scope: Scope
) -> str | None:
    """The name of the Sequential that a call runs, where all that it may be ends in a sigmoid and
    nothing changes it later; None otherwise.
    """
    name = dotted_name(call.func)
    is_plain = (
        len(call.args) == 1
        and not call.keywords
        and not isinstance(call.args[0], ast.Starred)
    )
    if name is None or not is_plain or _is_changed(program, name):
        return None
    made = list(_made(program, call.func, name, scope))
    return (
        name
        if made and all(_has_last_sigmoid(program, one) for one in made)
        else None
    )


def is_sequential(program: Program, call: ast.Call, scope: Scope) -> str | None:
    """The name of the Sequential that a call runs, whatever it ends in; None where it may be
    something else.
    """
    name = dotted_name(call.func)
    if name is None or len(call.args) != 1 or call.keywords:
        return None
    if isinstance(call.args[0], ast.Starred) or _is_changed(program, name):
        return None
    made = [
        _unkept(program, one) for one in _made(program, call.func, name, scope)
    ]
    plain = all(
        isinstance(one, ast.Call)
        and not one.keywords
        and program.canonical(one.func) == "torch.nn.Sequential"
        for one in made
    )
    return name if made and plain else None


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
    program: Program, func: ast.expr, name: str, scope: Scope
) -> Iterator[ast.expr | None]:
    """What the name is bound to, wherever that is."""
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
        bindings = list(program.reaching.at(func, name).bindings)
    for binding in bindings:
        plain = binding.how == "assign" and binding.index is None
        yield binding.value if plain else None


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


def _has_last_sigmoid(program: Program, made: ast.expr | None) -> bool:
    made = _unkept(program, made)
    if (
        not isinstance(made, ast.Call)
        or made not in program.module.parents
        or made.keywords
    ):
        return False
    if (
        program.canonical(made.func) != "torch.nn.Sequential"
        or len(made.args) < 2
    ):
        return False
    last = made.args[-1]
    listed = any(isinstance(layer, ast.Starred) for layer in made.args)
    return (
        not listed
        and isinstance(last, ast.Call)
        and (program.canonical(last.func) == "torch.nn.Sigmoid")
    )
