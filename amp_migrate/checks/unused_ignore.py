"""An ignore comment suppresses nothing; reported by the engine, which knows what was suppressed."""

from __future__ import annotations

from amp_migrate.checks._finding import Rule

RULE = Rule("unused-ignore", severity="warning")
