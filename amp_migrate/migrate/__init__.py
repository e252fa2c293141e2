"""The migrator: plain training loops in, correct AMP loops out, or a reason why not."""

from amp_migrate.migrate.text import migrate_text

__all__ = ["migrate_text"]
