"""The migrator: plain training loops in, correct AMP loops out, or a reason why not."""

from amp_migrate.migrate.text import Joint, company_of, migrate_text, migrate_texts

__all__ = ["Joint", "company_of", "migrate_text", "migrate_texts"]
