"""A migrator that tells files apart by words in them."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from amp_migrate.config import Settings
from amp_migrate.outcome import FileOutcome, LoopOutcome, Note

LOOP = "for x in data:\n    loss.backward()\n"
DONE = "for x in data:\n    scaler.scale(loss).backward()\n"
REFUSED = "for x in data:\n    LBFGS\n    loss.backward()\n"
SKIPPED = "x.grad\nloss.backward()\n"
CRASH = "CRASH\nloss.backward()\n"


def migrate_text(text: str, path: str, settings: Settings) -> FileOutcome:
    """`loss.backward()` is a plain loop; other words ask for other outcomes."""
    ast.parse(text)
    if "CRASH" in text:
        raise RuntimeError("seen CRASH")
    if "DEEP" in text:
        raise RecursionError
    if "INTERRUPT" in text:
        raise KeyboardInterrupt
    if "LBFGS" in text:
        loop = LoopOutcome(
            2,
            "fit",
            "refused",
            "step-with-closure",
            "the closure would run under a stale scale " * 5,
        )
        return FileOutcome(path, "refused", (loop,))
    if "scaler" in text or "x.grad" in text:
        reason = "already-amp" if "scaler" in text else "no-optimizer"
        return FileOutcome(
            path, "unchanged", (LoopOutcome(1, "<module>", "skipped", reason, None),)
        )
    output = text.replace("loss.backward()", "scaler.scale(loss).backward()")
    if settings.dtype == "bfloat16":
        output = text.replace("loss.backward()", "loss.backward()  # bf16")
    notes = (Note(2, 5, "an infinite loss now ends the run"),) if "isnan" in text else ()
    return FileOutcome(path, "migrated", (LoopOutcome(2, "<module>", "migrated"),), notes, output)


@dataclass(frozen=True)
class Joint:
    """What the files of one program became."""

    outcomes: dict[str, FileOutcome]
    company: tuple[str, ...] = ()


def migrate_texts(texts: dict[str, str], settings: Settings, project: object, **_: object) -> Joint:
    """Each file by itself."""
    return Joint({path: migrate_text(text, path, settings) for path, text in texts.items()})
