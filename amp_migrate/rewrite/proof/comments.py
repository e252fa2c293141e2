"""Comments: a rewrite neither makes nor loses one."""

from __future__ import annotations

import io
import tokenize
from collections import Counter


def comments_of(text: str) -> Counter[str]:
    """The comments of a module, each as often as it stands there; none where its tokens cannot be
    read.
    """
    if "#" not in text:
        return Counter()
    lines = io.StringIO(text, newline="")
    try:
        tokens = list(tokenize.generate_tokens(lines.readline))
    except (tokenize.TokenError, SyntaxError):
        return Counter()
    return Counter(
        token.string for token in tokens if token.type == tokenize.COMMENT
    )


def difference(original: str, output: str) -> str | None:
    """What became of a comment, in words; None where all are as they were."""
    if _tails(original) == _tails(output):
        return None
    before, after = comments_of(original), comments_of(output)
    for comment in before - after:
        return f"the comment `{comment}` would be lost"
    for comment in after - before:
        return f"the comment `{comment}` would stand there once more"
    return None


def _tails(text: str) -> Counter[str]:
    """What follows the first `#` of each line, be it a comment or part of a string: where that is
    the same, no token has to be read.
    """
    return Counter(
        line.partition("#")[2].rstrip()
        for line in text.splitlines()
        if "#" in line
    )
