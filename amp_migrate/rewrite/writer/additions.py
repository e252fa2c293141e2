"""Parameters, keyword arguments and dict entries that a definition, a call or a display gets."""

from __future__ import annotations

from collections import Counter
from typing import Any

import libcst as cst

from amp_migrate.rewrite.edits import (
    AddArgument,
    AddDecorator,
    AddDictEntry,
    AddParameter,
)
from amp_migrate.rewrite.writer.errors import EditConflict
from amp_migrate.rewrite.writer.listing import Frame, insert
from amp_migrate.rewrite.writer.precedence import parenthesised


def add_parameter(function: Any, edit: AddParameter, unit: str) -> Any:
    """`function` (a FunctionDef) with one more parameter; raises EditConflict where it has one of
    that name.
    """
    old: cst.Parameters = function.params
    star = (
        [old.star_arg]
        if isinstance(old.star_arg, cst.Param | cst.ParamStar)
        else []
    )
    slash = (
        [old.posonly_ind] if isinstance(old.posonly_ind, cst.ParamSlash) else []
    )
    positional = [*old.posonly_params, *slash, *old.params]
    rest = [old.star_kwarg] if old.star_kwarg is not None else []
    named = [*old.posonly_params, *old.params, *old.kwonly_params, *rest]
    named += [param for param in star if isinstance(param, cst.Param)]
    if any(param.name.value == edit.name for param in named):
        raise EditConflict(
            f"{edit}: the function {function.name.value} has such a parameter"
        )
    members = [*positional, *star, *old.kwonly_params, *rest]
    new = _parameter(edit)
    keyword_only = isinstance(old.star_arg, cst.Param) or (
        edit.default is None
        and any(
            getattr(param, "default", None) is not None for param in positional
        )
    )
    added = [cst.ParamStar(), new] if keyword_only and not star else [new]
    index = len(members) - len(rest) if keyword_only else len(positional)
    members, _ = insert(
        members,
        index,
        added,
        Frame(function.whitespace_before_params, None, unit),
    )
    return function.with_changes(
        params=_parameters(old, members, len(positional), keyword_only)
    )


def add_decorator(function: Any, edit: AddDecorator) -> Any:
    """`function` (a FunctionDef) with one more decorator, below those that it has."""
    added = cst.Decorator(cst.parse_expression(edit.text))
    return function.with_changes(decorators=[*function.decorators, added])


def add_argument(call: Any, edit: AddArgument, unit: str) -> Any:
    """`call` (a Call) with one more keyword argument; raises EditConflict where it has one of that
    name.
    """
    args = list(call.args)
    if any(
        arg.keyword is not None and arg.keyword.value == edit.name
        for arg in args
    ):
        raise EditConflict(f"{edit}: the call has such an argument")
    if (
        len(args) == 1
        and isinstance(args[0].value, cst.GeneratorExp)
        and not args[0].value.lpar
    ):
        args[0] = args[0].with_changes(value=parenthesised(args[0].value))
    equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    new = cst.Arg(
        cst.parse_expression(edit.value),
        keyword=cst.Name(edit.name),
        equal=equal,
    )
    index = next(
        (i for i, arg in enumerate(args) if arg.star == "**"), len(args)
    )
    members, _ = insert(
        args, index, [new], Frame(call.whitespace_before_args, None, unit)
    )
    return call.with_changes(args=members)


def add_dict_entry(display: Any, edit: AddDictEntry, unit: str) -> Any:
    """`display` (a Dict) with one more entry; raises EditConflict where it has one with
    that key.
    """
    entries = [
        element
        for element in display.elements
        if isinstance(element, cst.DictElement)
    ]
    key = cst.parse_expression(edit.key)
    if any(_same_key(entry.key, key) for entry in entries):
        raise EditConflict(f"{edit}: the dict has such a key")
    value = _quoted_like(cst.parse_expression(edit.value), entries)
    new = cst.DictElement(_quoted_like(key, entries), value)
    if entries and isinstance(
        entries[-1].whitespace_after_colon, cst.SimpleWhitespace
    ):
        new = new.with_changes(
            whitespace_after_colon=entries[-1].whitespace_after_colon
        )
    frame = Frame(
        display.lbrace.whitespace_after, display.rbrace.whitespace_before, unit
    )
    members, closing = insert(
        display.elements, len(display.elements), [new], frame
    )
    return display.with_changes(
        elements=members,
        rbrace=display.rbrace.with_changes(whitespace_before=closing),
    )


def _parameter(edit: AddParameter) -> cst.Param:
    if edit.default is None:
        return cst.Param(cst.Name(edit.name), star="")
    equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    return cst.Param(
        cst.Name(edit.name),
        default=cst.parse_expression(edit.default),
        equal=equal,
        star="",
    )


def _parameters(
    old: cst.Parameters, members: list[Any], positional: int, keyword_only: bool
) -> cst.Parameters:
    """Sort the members back into the fields of LibCST."""
    before, rest = len(old.posonly_params), list(members)
    posonly, rest = rest[:before], rest[before:]
    slash = (
        rest.pop(0)
        if isinstance(old.posonly_ind, cst.ParamSlash)
        else old.posonly_ind
    )
    count = len(old.params) + (0 if keyword_only else 1)
    params, rest = rest[:count], rest[count:]
    starred = bool(rest) and (
        isinstance(rest[0], cst.ParamStar) or rest[0].star == "*"
    )
    star = rest.pop(0) if starred else old.star_arg
    keywords = rest.pop() if old.star_kwarg is not None else None
    return old.with_changes(
        posonly_params=posonly,
        posonly_ind=slash,
        params=params,
        star_arg=star,
        kwonly_params=rest,
        star_kwarg=keywords,
    )


def _same_key(one: cst.BaseExpression, other: cst.BaseExpression) -> bool:
    if isinstance(one, cst.SimpleString) and isinstance(
        other, cst.SimpleString
    ):
        return one.evaluated_value == other.evaluated_value
    return one.deep_equals(other)


def _quoted_like(
    key: cst.BaseExpression, entries: list[cst.DictElement]
) -> cst.BaseExpression:
    """A string key in the quotes that most keys of the dict have."""
    if (
        not isinstance(key, cst.SimpleString)
        or key.prefix
        or "'" in key.raw_value
        or "\\" in key.raw_value
    ):
        return key
    keys = [
        entry.key
        for entry in entries
        if isinstance(entry.key, cst.SimpleString)
    ]
    quotes = Counter(known.quote for known in keys if len(known.quote) == 1)
    if not quotes or quotes.most_common(1)[0][0] == key.quote:
        return key
    return cst.SimpleString(f"'{key.raw_value}'")
