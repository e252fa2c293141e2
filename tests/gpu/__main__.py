"""Everything that needs a GPU, in ten minutes: `python -m tests.gpu [--out FOLDER] [PART...]`.

Each part is a process of its own with a share of the time. What it prints is written down while it
prints, so that a part that dies or runs out of time leaves what it has, and the others are made.
`FOLDER/gpu.md` joins them: it is the text for docs/gpu.md.

Exit code: 0 where every part came to its end and found nothing wrong, else 1.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.gpu.machine import described
from tests.gpu.part import PARTS, Outcome, Part, document, run


def main(arguments: Sequence[str] | None = None, parts: Sequence[Part] = PARTS) -> int:
    """Make the parts, write the document, print it."""
    options = _options(arguments, parts)
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    head = described(options.device)
    total = sum(part.share for part in parts)
    chosen = [part for part in parts if not options.parts or part.name in options.parts]
    outcomes: list[Outcome] = []
    for part in chosen:
        seconds = 60 * options.minutes * part.share / total
        print(f"{part.name}: {part.title}, {seconds:.0f} s at most", file=sys.stderr, flush=True)
        began = time.monotonic()
        found = run(part, out / f"{part.name}.md", options.device, options.tiny, seconds)
        outcomes.append(found)
        (out / "gpu.md").write_text(document(head, outcomes), encoding="utf-8")
        told = f"{part.name}: {found.ending}, {time.monotonic() - began:.0f} s"
        print(told, file=sys.stderr, flush=True)
    print(document(head, outcomes))
    print(f"{out / 'gpu.md'}: copy it to docs/gpu.md", file=sys.stderr)
    return int(any(not found.right for found in outcomes))


def _options(arguments: Sequence[str] | None, parts: Sequence[Part]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.gpu", description="What needs a GPU.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(p.name for p in parts))
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--tiny", action="store_true", help="a rehearsal: little of everything")
    parser.add_argument("--minutes", type=float, default=9.5)
    parser.add_argument("--out", type=Path, default=Path("build/gpu"))
    options = parser.parse_args(arguments)
    unknown = set(options.parts) - {part.name for part in parts}
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    if options.device == "cuda" and not _has_gpu():
        parser.error("torch sees no GPU here; --device cpu --tiny is the rehearsal")
    return options


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


if __name__ == "__main__":
    sys.exit(main())
