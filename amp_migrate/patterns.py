"""Regular expressions that are compiled when they are first asked: the hook's file needs few."""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


class _Pattern:
    """Stands for a pattern until then; each method is looked up once."""

    def __init__(self, text: Any, flags: int) -> None:
        self._asked = text, flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what copies and pickles looks for these
            raise AttributeError(name)
        found = getattr(re.compile(*self._asked), name)
        setattr(self, name, found)
        return found


def pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """What `re.compile` gives, as far as its methods are concerned."""
    return cast("re.Pattern[AnyStr]", _Pattern(text, flags))
