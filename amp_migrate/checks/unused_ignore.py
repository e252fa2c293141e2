"""An ignore comment suppresses nothing; reported by the engine, which knows what was suppressed."""

from __future__ import annotations

from amp_migrate.lint.finding import Rule

RULE = Rule("unused-ignore", severity="warning")
