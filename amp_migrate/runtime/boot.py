"""First file of a child process: finds this package without leaving its folder on the path of the
user's program.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    own = sys.path[0]
    sys.path[0] = str(Path(own).parents[1])
    from amp_migrate.runtime import child
    from amp_migrate.runtime import fork_server as zygote

    sys.path[0] = own
    serve, last = sys.argv[1] == "--serve", sys.argv[-1]
    sys.exit(zygote.main(last) if serve else child.main(last))
