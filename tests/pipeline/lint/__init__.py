"""Mirrors amp_migrate/lint."""
