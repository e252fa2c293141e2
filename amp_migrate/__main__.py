"""`python -m amp_migrate`."""

import os
import sys

# Python puts the current folder in front of its own modules, and what lies there is what is looked
# at, never to be run: a `pickle.py` of the project is not Python's. (What Python itself imports
# before this line is out of reach: `python -I -m amp_migrate` leaves the folder out from the
# start.)
if sys.path[:1] in ([""], [os.getcwd()]) and not getattr(  # noqa: PTH109
    sys.flags, "safe_path", False
):
    del sys.path[0]

from amp_migrate.cli import console

if __name__ == "__main__":
    sys.exit(console())
