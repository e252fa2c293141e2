"""Both steps: out of apex, proved; then into torch.amp by the migrator, which proves its own part."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable, Iterator, Mapping

from amp_migrate.apex.erase import proved
from amp_migrate.apex.unapex import Unapexed, unapex
from amp_migrate.config import Settings
from amp_migrate.outcome import FileOutcome, LoopOutcome, Note

Migrate = Callable[[str, Settings, Mapping[str, tuple[str, ...]]], FileOutcome]
_OFF = "opt_level O0 is plain float32: apex is removed, and torch.amp is not added"


def migrate_apex(text: str, path: str, settings: Settings, migrate: Migrate) -> FileOutcome | None:
    """The outcome of a module that uses what apex has removed, None for any other.

    `migrate` is the migrator, for the plain program. Everything is rewritten or nothing: where one loop that scaled its
    loss by apex cannot be migrated, the module is refused with that loop's reason. Raises SyntaxError.
    """
    plain = unapex(text, path)
    if plain is None:
        return None
    if plain.refusals:
        return FileOutcome(path, "refused", plain.refusals)
    fault = proved(text, plain.text)
    if fault is not None:
        message = f"what apex stood for in this file could not be proved: {fault}"
        return FileOutcome(path, "refused", (LoopOutcome(_line(plain), "<module>", "refused", "apex-form", message),))
    if plain.always_off:
        return _off(path, plain)
    # apex runs on CUDA alone, so its programs mean a GPU whether or not they say so.
    on_gpu = settings if settings.device is not None else dataclasses.replace(settings, device="cuda")
    outcome = migrate(plain.text, on_gpu, plain.switches)
    return _judged(path, plain, outcome, settings)


def _line(plain: Unapexed) -> int:
    return plain.scaled[0][1] if plain.scaled else 1


def _off(path: str, plain: Unapexed) -> FileOutcome:
    loops = tuple(LoopOutcome(line, scope, "migrated") for scope, line in plain.scaled)
    return FileOutcome(path, "migrated", loops, (*plain.notes, Note(_line(plain), 1, _OFF)), plain.text)


def _judged(path: str, plain: Unapexed, outcome: FileOutcome, settings: Settings) -> FileOutcome:
    """The outcome of the second step, if it migrated every loop that apex had; else a refusal."""
    found = {loop.scope: loop for loop in outcome.loops}
    if outcome.status == "failed":
        return dataclasses.replace(outcome, loops=())
    bad = [_refused(line, scope, found.get(scope)) for scope, line in plain.scaled if not _done(found.get(scope))]
    if bad or not plain.scaled:
        return FileOutcome(path, "refused", tuple(bad) or (_without_loop(plain),))
    assert outcome.output is not None
    strays = list(_strays(outcome.output, plain.switches))
    if strays:
        message = f"AMP was on where `{strays[0]}`, which cannot be read where the scaler is made"
        return FileOutcome(path, "refused", (LoopOutcome(_line(plain), "<module>", "refused", "apex-form", message),))
    return dataclasses.replace(outcome, notes=(*plain.notes, *outcome.notes))


def _done(loop: LoopOutcome | None) -> bool:
    return loop is not None and loop.status == "migrated"


def _refused(line: int, scope: str, loop: LoopOutcome | None) -> LoopOutcome:
    if loop is None:
        why = "its loss is scaled by apex, and no call of backward on it was found"
        return LoopOutcome(line, scope, "refused", "apex-form", why)
    if loop.reason == "already-amp":
        why = "apex.amp and torch.amp stand side by side: remove the branches of apex, whose package no longer has it"
        return LoopOutcome(line, scope, "refused", "apex-form", why)
    message = f"apex.amp is left as it is, for the loop cannot be migrated: {loop.message}"
    return LoopOutcome(line, scope, "refused", loop.reason, message)


def _without_loop(plain: Unapexed) -> LoopOutcome:
    why = "apex.amp is used here for a loop in another file, and both have to change together"
    return LoopOutcome(_line(plain), "<module>", "refused", "apex-form", why)


def _strays(output: str, switches: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """What had switched apex on, where a scaler does not ask for it."""
    wanted = {ast.dump(ast.parse(text, mode="eval").body) for texts in switches.values() for text in texts}
    for node in ast.walk(ast.parse(output)) if wanted else ():
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "GradScaler":
            given = next((k.value for k in node.keywords if k.arg == "enabled"), None)
            is_absent = isinstance(given, ast.Constant) and given.value is False
            if not is_absent and (given is None or ast.dump(given) not in wanted):
                yield next(texts[0] for texts in switches.values())
