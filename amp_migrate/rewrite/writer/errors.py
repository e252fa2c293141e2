"""What can keep a set of edits from being applied."""

from __future__ import annotations


class WriteError(ValueError):
    """The edits cannot be applied; the text is left as it was."""


class UnparsableModule(WriteError):
    """LibCST cannot read the module."""


class SpanNotFound(WriteError):
    """A span meets no syntax node, or LibCST would not print the module as it was."""


class EditConflict(WriteError):
    """Two edits contradict each other, or one contradicts what the module already says."""
