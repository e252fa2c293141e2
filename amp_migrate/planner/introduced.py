"""What the edits of a file bring into it, for the proof: a fold over them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from amp_migrate.model.syntax.module import Module
from amp_migrate.planner.half_safety.cast_edits import casts_in
from amp_migrate.planner.loop_edits import LoopEdits
from amp_migrate.planner.spelling import BF16
from amp_migrate.rewrite.edits import (
    AddArgument,
    AddImport,
    Edit,
    InsertAfter,
    InsertBefore,
    ReplaceExpression,
)
from amp_migrate.rewrite.proof import Introduced


def introduced(
    made: LoopEdits,
    scalers: Collection[str],
    edits: Sequence[Edit],
    file: Module,
) -> Introduced:
    """What `edits`, of which `made` has rendered the loops', bring into a file; `scalers` are the
    scalers of its loops.
    """
    paths = _paths(made) | {*scalers}
    names = _switch_names(made, paths)
    own = made.switches.own
    is_scaled = made.settings.dtype != "bfloat16"
    return Introduced(
        scalers=frozenset(paths) if is_scaled else frozenset(),
        hoisted=frozenset(made.hoisted),
        names=frozenset(names),
        given=frozenset(made.wiring.names)
        if _set_elsewhere(made, file)
        else frozenset(),
        imports_torch=any(isinstance(edit, AddImport) for edit in edits),
        torch=made.spellings.of(file.root).torch,
        savers=frozenset(_savers(edits, file)),
        float_casts=sum(map(casts_in, edits)),
        sequences=frozenset(_sequences(edits)),
        regions=frozenset(made.headers),
        constructors=frozenset(_assigned(edits, "GradScaler(")),
        values=frozenset(_assigned(edits, "")) if names else None,
        evaluated=made.switches.evaluated,
        option=own.declared(edits, file) if own is not None else None,
    )


def _paths(made: LoopEdits) -> set[str]:
    """How the scalers are read: as names, and as attributes of their objects."""
    name = made.wiring.name
    return {name} | {
        f"{h.attribute}.{name}"
        for h in made.wiring.scalers.homes
        if h.attribute
    }


def _switch_names(made: LoopEdits, paths: set[str]) -> set[str]:
    """What is made beside the scalers."""
    names: set[str] = set()
    if made.settings.dtype == "auto":
        prefixes = {p.rpartition(".")[0] for p in paths}
        names = {
            f"{p}.{n}" if p else n
            for p in prefixes
            for n in ("use_amp", "amp_dtype")
        }
    if made.switches.own is not None:
        names.add(BF16)
    if made.settings.guard_scheduler:
        names.add("scale_before")
    return names


def _set_elsewhere(made: LoopEdits, file: Module) -> bool:
    return any(
        home.attribute and home.scope.module is not file
        for home in made.wiring.scalers.homes
    )


def _savers(edits: Sequence[Edit], file: Module) -> Iterator[str]:
    """What is called with the state of a scaler."""
    text = file.text.encode()
    for edit in edits:
        if isinstance(edit, AddArgument) and ".state_dict()" in edit.value:
            call = text[edit.call.start : edit.call.end].decode()
            yield call.partition("(")[0].strip()


def _sequences(edits: Sequence[Edit]) -> Iterator[str]:
    """The Sequentials whose last layers are called by themselves."""
    for edit in edits:
        name, found, _ = (
            edit.replacement.text.partition("[-1](")
            if isinstance(edit, ReplaceExpression)
            else ("", "", "")
        )
        if found:
            yield name


def _assigned(edits: Sequence[Edit], word: str) -> set[str]:
    """The right-hand sides of the inserted assignments that hold `word`."""
    lines = (
        t.text
        for e in edits
        if isinstance(e, (InsertAfter, InsertBefore))
        for t in e.statements
    )
    return {
        line.partition(" = ")[2]
        for line in lines
        if " = " in line and word in line and "$" not in line
    }
