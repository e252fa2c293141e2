"""Mirrors amp_migrate/report."""
