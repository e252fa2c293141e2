"""`python -m amp_migrate`."""

import sys

from amp_migrate.cli import main

if __name__ == "__main__":
    sys.exit(main())
