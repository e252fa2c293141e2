"""What can be wrong with a file, told with its place and its remedy."""

from __future__ import annotations

import errno


class SourceError(Exception):
    """A file that cannot be processed; `line` and `column` are 1-based, 0 where the place is the
    whole file.
    """

    def __init__(
        self,
        message: str,
        line: int = 0,
        column: int = 0,
        path: str | None = None,
    ) -> None:
        """`path`: the file, where the error may be about one of several."""
        super().__init__(message, line, column, path)
        self.message, self.line, self.column = message, line, column
        self.path = path

    def __str__(self) -> str:
        return self.message

    def at(self, path: str) -> str:
        """The message behind `path:line:column`, as editors and terminals link it."""
        place = f":{self.line}:{self.column}" if self.line else ""
        return f"{path}{place}: {self.message}"


_READING = {
    errno.EACCES: "no permission to read it; change its mode (chmod u+r) or exclude it",
    errno.EPERM: "no permission to read it; change its mode (chmod u+r) or exclude it",
    errno.ENOENT: "it is no longer there",
    errno.ELOOP: "a symbolic link that leads to itself; remove it or exclude it",
    errno.EISDIR: "a folder where a file was expected",
    errno.ENODEV: "not a regular file; to read from a pipe, name it -",
    errno.EFBIG: "larger than 64 MiB; exclude it",
}
_WRITING = {
    errno.EACCES: "no permission to write beside it; make its folder writable (chmod u+w)",
    errno.EPERM: "no permission to replace it; check its owner and attributes (ls -l, lsattr)",
    errno.EROFS: "it lies on a read-only file system; copy the project to a writable one",
    errno.ENOSPC: "no space left on the disk; free some and run again",
    errno.EDQUOT: "the disk quota is used up; free some space and run again",
}


def reading(error: OSError) -> SourceError:
    """Tell why a file or folder could not be read."""
    return SourceError(_told(error, "cannot be read", _READING))


def writing(error: OSError) -> SourceError:
    """Tell why a file could not be replaced; it is still as it was."""
    return SourceError(
        _told(error, "cannot be written", _WRITING) + "; it is unchanged"
    )


def _told(error: OSError, what: str, remedies: dict[int, str]) -> str:
    remedy = remedies.get(
        error.errno or 0, error.strerror or type(error).__name__
    )
    return f"{what}: {remedy}"
