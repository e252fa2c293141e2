"""From `apex.amp`, which apex removed in 2025, to `torch.amp`: first the plain float32 program,
then its migration.
"""

from amp_migrate.apex.migrate import migrate_apex
from amp_migrate.apex.unapex import Unapexed, unapex

__all__ = ["Unapexed", "migrate_apex", "unapex"]
