"""How files, places and messages are shown to people: of its own, since every start of `lint` needs
it and little else does.

Names and messages may come from a tree that nobody vouches for. Shown as they are, they could move
the cursor, colour or hide text, begin a line of their own, or give a command to the runner of
GitHub Actions, which reads `::error::` at the start of a line and `##[error]` anywhere in it.
"""

from __future__ import annotations

import os
from typing import IO, Any

from amp_migrate.patterns import pattern

# Control characters, line separators, marks that turn the direction of text, halves of surrogate
# pairs.
_UNSAFE = pattern(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]|##(?=\\[)"
)
_COMMAND = pattern(r"\s*(::|##\[)")


def escaped(text: str, keep: str = "") -> str:
    """`text` as one harmless line: what a terminal would obey is written as in a Python string.

    Args:
        text: a name, a message, a line of source.
        keep: characters that stay as they are, such as the tab of a line of source.
    """
    return _UNSAFE.sub(
        lambda found: found[0] if found[0] in keep else _spelled(found[0]), text
    )


def _spelled(found: str) -> str:
    if found == "##":
        return "#\\x23"
    return found.encode("unicode_escape", "surrogatepass").decode()


def shown(path: str | os.PathLike[str]) -> str:
    """The name of `path` for people and for JSON: bytes that are no text are escaped, and so is
    what a terminal would obey.
    """
    name = (
        os.fspath(path)
        .encode("utf-8", "surrogateescape")
        .decode("utf-8", "backslashreplace")
    )
    return f"./{escaped(name)}" if _COMMAND.match(name) else escaped(name)


def colour_wish() -> bool | None:
    """What the environment says of colours: NO_COLOR, FORCE_COLOR (empty counts as unset), or
    nothing. Source: no-color.org, force-color.org.
    """
    if os.environ.get("NO_COLOR"):
        return False
    return True if os.environ.get("FORCE_COLOR") else None


def in_colour(stream: IO[Any]) -> bool:
    """Whether what goes to `stream` is coloured: as the environment wishes, else on terminals."""
    wish = colour_wish()
    return stream.isatty() if wish is None else wish


def place(
    path: str, line: int, column: int | None = None, cell: int | None = None
) -> str:
    """`path:line:column`, as editors and terminals link it; in a notebook `path:cell
    3:line:column`.
    """
    parts = [
        path,
        *([] if cell is None else [f"cell {cell}"]),
        str(line),
        *([] if column is None else [str(column)]),
    ]
    return ":".join(parts)
