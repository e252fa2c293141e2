"""What verify's probe and monitor cost."""

from __future__ import annotations

import itertools

from tests.bench.probe_cost import table
from tests.gpu.arguments import budget


def main() -> None:
    """Print the table of `tests.bench.probe_cost`, as far as the time goes."""
    given = budget("What verify's probe costs.")
    rows = table(given.device, 24 if given.tiny else 120)
    for line in itertools.islice(rows, 3) if given.tiny else rows:
        print(line, flush=True)
        if given.left < 10:
            print("\nno time was left for the others")
            return


if __name__ == "__main__":
    main()
