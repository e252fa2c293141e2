"""Changes as unified diffs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import click


def changes(
    path: str, before: bytes, after: bytes, encoding: str
) -> Iterator[str]:
    """What a file's new bytes change, as a unified diff; of a notebook, in the lines of its file,
    since `git apply` takes no others.
    """
    yield from diff(path, before.decode(encoding), after.decode(encoding))


def diff(path: str, before: str, after: str) -> Iterator[str]:
    """A unified diff, line by line with the file's own line ends, that `git apply` takes."""
    from difflib import unified_diff

    old, new = (_header(side, path) for side in "ab")
    for line in unified_diff(_lines(before), _lines(after), old, new):
        yield (
            line
            if line.endswith("\n")
            else line + "\n\\ No newline at end of file\n"
        )


def _header(side: str, path: str) -> str:
    """A file's name in the head of a patch, as git writes it: quoted where it holds control
    characters, with a tab behind blanks, which would end it.
    """
    name = f"{side}/{path.lstrip('/')}"
    if all(char.isprintable() and char not in '"\\' for char in name):
        return name + "\t" if " " in name else name
    octal = "".join(
        chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:03o}"
        for b in name.encode()
    )
    return f'"{octal}"'


def _lines(text: str) -> list[str]:
    # Not `splitlines`: form feeds and the like end no line for diff and patch.
    lines = text.split("\n")
    return [line + "\n" for line in lines[:-1]] + (
        [lines[-1]] if lines[-1] else []
    )


def coloured(lines: Iterable[str]) -> Iterator[str]:
    """A diff as a terminal shows it."""
    for line in lines:
        if line.startswith(("+++ ", "--- ")):
            yield click.style(line, bold=True)
        elif line.startswith("@@"):
            yield click.style(line, fg="cyan")
        else:
            yield click.style(line, fg={"+": "green", "-": "red"}.get(line[0]))
