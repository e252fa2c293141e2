"""First file of a child process: finds this package without leaving its folder on the path of the user's program."""

import sys
from pathlib import Path

if __name__ == "__main__":
    own = sys.path[0]
    sys.path[0] = str(Path(own).parents[1])
    from amp_migrate.runtime import child, zygote

    sys.path[0] = own
    sys.exit(child.main(sys.argv[1]) if len(sys.argv) > 1 else zygote.main())
