"""Mirrors amp_migrate/checks."""
