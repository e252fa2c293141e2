"""Notebooks for tests."""

from __future__ import annotations

import json
from typing import Any


def code(source: str, listed: bool = True, **metadata: Any) -> dict[str, Any]:
    """A code cell with an output."""
    return {
        "cell_type": "code",
        "execution_count": 7,
        "metadata": metadata,
        "outputs": [{"output_type": "stream", "name": "stdout", "text": ["loss.backward() é\n"]}],
        "source": source.splitlines(keepends=True) if listed else source,
    }


def markdown(source: str) -> dict[str, Any]:
    """A cell of prose."""
    return {"cell_type": "markdown", "id": "a1", "metadata": {}, "source": [source]}


def notebook(
    *cells: dict[str, Any] | str, metadata: dict[str, Any] | None = None, **dumped: Any
) -> bytes:
    """The bytes of a notebook; a string is the source of a code cell."""
    document = {
        "cells": [code(cell) if isinstance(cell, str) else cell for cell in cells],
        "metadata": {"kernelspec": {"name": "python3", "language": "python"}}
        if metadata is None
        else metadata,
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return (json.dumps(document, **{"indent": 1, "ensure_ascii": False, **dumped}) + "\n").encode()


def sources(data: bytes) -> list[str]:
    """The sources of all cells."""
    return ["".join(cell["source"]) for cell in json.loads(data.decode("utf-8-sig"))["cells"]]


def rest(data: bytes) -> list[str]:
    """The lines of a notebook's file outside the sources of its cells, written as `notebook` does."""
    document = json.loads(data.decode("utf-8-sig"))
    for cell in document["cells"]:
        cell["source"] = []
    return json.dumps(document).splitlines()
