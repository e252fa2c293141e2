"""Lint: from a file to its findings, and from findings to a mended file."""
