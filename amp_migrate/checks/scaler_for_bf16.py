"""A GradScaler is used with bfloat16, which does not need one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._code import Code
from amp_migrate.checks._finding import Finding, Fix, Rule, finding_at
from amp_migrate.checks._regions import Region, is_autocast, regions
from amp_migrate.config import Settings
from amp_migrate.model.autocast.dtype_choices import is_chosen_abroad, keys_of
from amp_migrate.model.conditions.arms import arms
from amp_migrate.model.conditions.assumptions import cases, runs_in
from amp_migrate.model.conditions.decisions import (
    conditions_of,
    grounds,
    is_one_variable,
    share_a_cause,
)
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import Scope, shallow
from amp_migrate.rewrite.edits import AddArgument

RULE = Rule("scaler-for-bf16", severity="info")
_LISTED = (ast.Tuple, ast.List, ast.Set)
_ALWAYS = (
    "bfloat16 has the range of float32 and needs no scaler, which costs a "
    "synchronisation per step; switch it off"
)
_SOMETIMES = (
    "with bfloat16, which may be chosen here, the scaler is not needed and costs a "
    "synchronisation per step; make it with `enabled=dtype == torch.float16`"
)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find enabled scalers in a module whose regions are all bfloat16."""
    if "caler" not in program.module.text or not regions(program):
        return
    enabled = [r for r in regions(program) if not r.off]
    used = {id(region.call) for region in regions(program)}
    calls = [
        c
        for s in program.module.scopes.values()
        for c in s.calls
        if is_autocast(program, c)
    ]
    choices = [_choices(region) for region in enabled]
    if not enabled or any(id(call) not in used for call in calls):
        return
    if any("bfloat16" not in one for one in choices):
        return
    sure = all(one == {"bfloat16"} for one in choices)
    for scope in program.module.scopes.values():
        for call in scope.calls:
            if program.events.what(call, scope) != EventKind.SCALER_CREATED:
                continue
            given = next(
                (k.value for k in call.keywords if k.arg == "enabled"), None
            )
            if _is_left_unmade(program, call, scope, enabled) or not _is_told(
                program, call, given, scope, enabled, sure
            ):
                continue
            yield finding_at(
                program,
                call,
                RULE,
                _ALWAYS if sure else _SOMETIMES,
                related=[(enabled[0].place, "bfloat16 here")],
                fix=_fix(program, call, given) if sure else None,
            )


def _is_told(
    program: Program,
    call: ast.Call,
    given: ast.expr | None,
    scope: Scope,
    enabled: list[Region],
    sure: bool,
) -> bool:
    """Whether a scaler is on where bfloat16 is chosen, as far as the conditions can be followed."""
    if not sure and _may_follow_abroad(program, call, given, enabled):
        return False
    if _is_made_for(program, call, given, enabled):
        return True
    is_apart = sure or not _follows_dtype(program, call, enabled)
    return is_apart and _is_on(program, given, scope, enabled, sure)


def _is_made_for(
    program: Program,
    call: ast.Call,
    given: ast.expr | None,
    enabled: list[Region],
) -> bool:
    """Whether a setting that asks for bfloat16 in each region makes the scaler as well."""
    asked = [
        set(
            cases(program, dtype, program.module.scope_of(one.call), "bfloat16")
        )
        for one in enabled
        if (dtype := one.argument("dtype")) is not None
    ]
    if not asked or _asks_for_dtype(program, call, given, enabled):
        return False
    common = set.intersection(*asked)
    return any(runs_in(program, call, given, case) for case in common)


def _is_left_unmade(
    program: Program, call: ast.Call, scope: Scope, enabled: list[Region]
) -> bool:
    """Whether it is the scaler of a class of another file than the regions, which nothing makes and
    whose heirs hold none of them.
    """
    graph, home = program.graph, program.module.file_of(call)
    cls = graph.class_around(scope)
    if cls is None:
        return False
    family = {cls, *graph.heirs(cls)}
    return not any(graph.constructions(one) for one in family) and not any(
        program.module.file_of(one.call) is home
        or graph.class_around(one.scope) in family
        for one in enabled
    )


def _may_follow_abroad(
    program: Program,
    call: ast.Call,
    given: ast.expr | None,
    enabled: list[Region],
) -> bool:
    """Whether a scaler is made on a condition, which may be the one by which another file chooses
    the dtype.
    """
    is_asked = given is not None and not isinstance(given, ast.Constant)
    return (is_asked or bool(conditions_of(program, call))) and any(
        is_chosen_abroad(program, dtype, program.module.scope_of(one.call))
        for one in enabled
        if (dtype := one.argument("dtype")) is not None
    )


def _asks_for_dtype(
    program: Program,
    call: ast.Call,
    given: ast.expr | None,
    enabled: list[Region],
) -> bool:
    """Whether what makes the scaler asks for the chosen dtype itself."""
    names = {
        ast.unparse(dtype).rpartition(".")[2]
        for one in enabled
        if (dtype := one.argument("dtype")) is not None
    }
    tests = [test for test, _ in conditions_of(program, call)]
    return any(
        (dotted_name(node) or "").rpartition(".")[2] in names
        for test in (*tests, given)
        if test is not None
        for node in shallow(test)
        if isinstance(node, ast.expr)
        and not _is_compared_with_text(program, node)
    )


def _is_compared_with_text(
    program: Program,
    node: ast.expr,
) -> bool:
    """`args.dtype` of `args.dtype in ("float16", "bfloat16")`: a setting, and no dtype."""
    test = program.module.parents[node]
    if not isinstance(test, ast.Compare) or test.left is not node:
        return False
    right = test.comparators[0]
    listed = right.elts if isinstance(right, _LISTED) else [right]
    return all(
        isinstance(one, ast.Constant) and isinstance(one.value, str)
        for one in listed
    )


def _choices(region: Region) -> frozenset[str]:
    """The types that the region may have, where that is written out."""
    written = region.argument("dtype") is not None
    return (region.dtypes if written else None) or frozenset()


def _follows_dtype(
    program: Program, call: ast.Call, enabled: list[Region]
) -> bool:
    """Whether the scaler is made under a condition that has to do with the choice of the dtype."""
    dtypes = [
        (value, program.module.scope_of(region.call))
        for region in enabled
        if (value := region.argument("dtype")) is not None
    ]
    return share_a_cause(program, conditions_of(program, call), dtypes)


def _is_on(
    program: Program,
    given: ast.expr | None,
    scope: Scope,
    enabled: list[Region],
    sure: bool,
) -> bool:
    """Whether the scaler works where autocast computes in bfloat16: for good, under the condition
    of autocast itself (of any, where each of them computes so), or under one that the name of
    bfloat16 meets as well.
    """
    each = any if sure else all
    if given is None or isinstance(given, ast.Constant):
        return given is None or bool(given.value)
    return each(
        _is_on_in(program, given, scope, region) for region in enabled
    ) or any(
        _is_met(program, given, scope, region)
        or _asks_for_bf16(program, given, scope, region)
        for region in enabled
    )


def _asks_for_bf16(
    program: Program, given: ast.expr, scope: Scope, region: Region
) -> bool:
    """Whether a comparison of the region's own dtype, or a part of a condition, holds for bfloat16:
    `dtype == torch.bfloat16`, `amp and dtype in (torch.float16, torch.bfloat16)`.
    """
    if isinstance(given, ast.BoolOp):
        parts = given.values
        return any(_asks_for_bf16(program, p, scope, region) for p in parts)
    dtype = region.argument("dtype")
    if not isinstance(given, ast.Compare) or len(given.ops) > 1 or not dtype:
        return False
    where = program.module.scope_of(region.call)
    if not is_one_variable(program, (given.left, scope), (dtype, where)):
        return False
    right = given.comparators[0]
    listed = right.elts if isinstance(right, _LISTED) else [right]
    named = [
        (program.canonical(one) or "").removeprefix("torch.") for one in listed
    ]
    is_named = "bfloat16" in named
    match given.ops[0]:
        case ast.Eq() | ast.Is() | ast.In():
            return is_named
        case ast.NotEq() | ast.IsNot() | ast.NotIn():
            return all(named) and not is_named
    return False


def _is_on_in(
    program: Program, given: ast.expr, scope: Scope, region: Region
) -> bool:
    other, dtype = region.argument("enabled"), region.argument("dtype")
    where = program.module.scope_of(region.call)
    if other is None:  # `autocast(...) if use_amp else nullcontext()`
        asked = list(arms(program, region.call, where.node))
        other = asked[0][0] if len(asked) == 1 and asked[0][1] else None
    if other is None or dtype is None:
        return False
    return is_one_variable(
        program, (given, scope), (other, where)
    ) and not share_a_cause(
        program,
        grounds(program, given, scope),
        [(dtype, where)],
        apart=(given, scope),
    )


def _is_met(
    program: Program, given: ast.expr, scope: Scope, region: Region
) -> bool:
    """Whether a comparison holds for a key under which the table of dtypes has bfloat16."""
    dtype = region.argument("dtype")
    where = program.module.scope_of(region.call)
    asked = keys_of(program, dtype, where, "bfloat16") if dtype else None
    if asked is None or not isinstance(given, ast.Compare):
        return False
    is_same = ast.unparse(given.left) == ast.unparse(asked[0])
    if not is_same and not is_one_variable(
        program, (given.left, scope), (asked[0], where)
    ):
        return False
    return any(_holds(given, key) for key in asked[1])


def _holds(test: ast.Compare, key: object) -> bool:
    """`x == "float16"`, `x in ("float16", "bfloat16")` and their opposites, where x is `key`."""
    try:
        known = ast.literal_eval(test.comparators[0])
    except ValueError:
        return False
    if len(test.ops) > 1:
        return False
    among = known if isinstance(known, (list, tuple, set)) else ()
    match test.ops[0]:
        case ast.Eq():
            return bool(known == key)
        case ast.NotEq():
            return bool(known != key)
        case ast.In():
            return key in among
        case ast.NotIn():
            return bool(among) and key not in among
    return False


def _fix(program: Program, call: ast.Call, given: ast.expr | None) -> Fix:
    if given is not None:
        return Fix(
            "safe",
            "switch the scaler off",
            (Code(program, call).replace(given, "False"),),
        )
    return Fix(
        "safe",
        "switch the scaler off",
        (AddArgument(program.module.span(call), "enabled", "False"),),
    )
