"""The file does not parse; reported by the engine, which finds out."""

from __future__ import annotations

from amp_migrate.checks._finding import Rule

RULE = Rule("syntax", severity="error")
