"""The guard: what must hold before a rewritten module may replace the original."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Iterator

from amp_migrate.rewrite.proof.comments import difference
from amp_migrate.rewrite.proof.compare import compare
from amp_migrate.rewrite.proof.erase import Eraser
from amp_migrate.rewrite.proof.facts import Failure, Introduced
from amp_migrate.rewrite.proof.inline import inline
from amp_migrate.rewrite.proof.names import name_faults
from amp_migrate.rewrite.proof.no_closure import leave_out
from amp_migrate.rewrite.proof.settings import restore
from amp_migrate.rewrite.proof.untouched import set_aside

Again = Callable[[str], "str | None"]
Protocol = Callable[[str], "list[str]"]
UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)


def check(
    original: str,
    output: str,
    introduced: Introduced,
    again: Again | None = None,
    protocol: Protocol | None = None,
    *,
    names: bool = True,
) -> tuple[Failure, ...]:
    """Prove that `output` is `original` with AMP added and nothing else; an empty tuple is the
    proof.

    `again` is the migrator: it gets the output and returns its new text, or None where nothing is
    left to do. `protocol` returns one message per violation. Both run only on an output that parses
    and is the same program. Without `names`, whether added names are free and set is left to
    `additions.unproved`, which asks it, too.
    """
    try:
        before, after = _parse(original), _parse(output)
        _compile(after, before)
    except UNREADABLE as error:
        line = getattr(error, "lineno", None) or 1
        why = f"the output does not parse: {error}"
        return (Failure("parses", line, why),)
    try:
        clash = _may_clash(original, introduced)
        faults = name_faults(before, after, introduced) if names else ()
        failures = (
            *(Failure("additions", line, message) for line, message in faults),
            *_same_program(before, after, introduced, clash),
            *_same_comments(original, output),
        )
    except RecursionError:
        why = "the file is nested too deeply to be compared"
        return (Failure("same-program", 1, why),)
    return failures or (
        *_protocol(output, protocol),
        *stable(output, again(output) if again else None),
    )


def _parse(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text.removeprefix("\ufeff"))


def _compile(tree: ast.Module, original: ast.Module | None = None) -> None:
    """Raise what only the compiler sees (a name read before its `global`, ...), unless the
    original has a fault too.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(
                tree,
                "<output>",
                "exec",
                ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
                dont_inherit=True,
            )
    except UNREADABLE:
        if original is None or _compiles(original):
            raise


def _compiles(tree: ast.Module) -> bool:
    try:
        _compile(tree)
    except UNREADABLE:
        return False
    return True


def _may_clash(original: str, introduced: Introduced) -> bool:
    """Whether the original holds any word that an erase rule looks for; a byte search, to spare
    most files a walk.
    """
    words = {
        path.rpartition(".")[2]
        for path in introduced.scalers | introduced.names
    } | {"autocast"}
    declares = introduced.option is not None
    return (
        introduced.imports_torch
        or declares
        or any(word in original for word in words)
    )


def _same_program(
    before: ast.Module, after: ast.Module, introduced: Introduced, clash: bool
) -> Iterator[Failure]:
    restore(before, introduced.settings)
    restore(after, introduced.settings)
    set_aside(before, after)
    if clash and (taken := Eraser(introduced).run(before)):
        message = f"line {taken[0]} of the original already uses what the rewrite would introduce"
        yield Failure("same-program", 1, message)
        return
    Eraser(introduced).run(after)
    for tree in (before, after):
        leave_out(tree)
        inline(tree, introduced.hoisted, introduced.losses)
    found = compare(before, after)
    if found.difference:
        yield Failure(
            "same-program", found.difference.output_line, str(found.difference)
        )
    elif found.float_casts != introduced.float_casts:
        message = (
            f"{found.float_casts} added .float() calls where the rewrite declares "
            f"{introduced.float_casts}"
        )
        yield Failure("same-program", 1, message)


def _same_comments(original: str, output: str) -> Iterator[Failure]:
    if why := difference(original, output):
        yield Failure("comments", 1, why)


def _protocol(output: str, protocol: Protocol | None) -> Iterator[Failure]:
    for message in protocol(output) if protocol else ():
        yield Failure("protocol", 1, message)


def stable(output: str, second: str | None) -> Iterator[Failure]:
    """What a second run would change: `second` is its output, None where it changes nothing."""
    if second is None or second == output:
        return
    old, new = output.splitlines(), second.splitlines()
    common = min(len(old), len(new))
    index = next((i for i in range(common) if old[i] != new[i]), common)
    was, now = (
        lines[index].strip() if index < len(lines) else "the end of the file"
        for lines in (old, new)
    )
    yield Failure(
        "stable",
        index + 1,
        f"a second run changes line {index + 1}: `{now}` instead of `{was}`",
    )
