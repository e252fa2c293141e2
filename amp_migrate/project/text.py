"""Bytes to text and back without loss: encoding cookies (PEP 263), byte order marks and line ends
are kept.
"""

from __future__ import annotations

import codecs
import io
import re
import tokenize
from typing import TYPE_CHECKING

from amp_migrate.patterns import pattern
from amp_migrate.project.errors import SourceError
from amp_migrate.project.prefilter import is_notebook
from amp_migrate.records import NamedTuple

if TYPE_CHECKING:
    from amp_migrate.outcome import FileOutcome
    from amp_migrate.project.notebook import Notebook

_LONE_RETURN = pattern(rb"\r(?!\n)")


class Decoded(NamedTuple):
    """A module's text as it stands in the file: line ends included, the byte order mark
    left out.
    """

    text: str
    encoding: str
    mark: bytes = b""

    def encode(self, text: str) -> bytes:
        """`text` as bytes of the file that this one was read from."""
        return self.mark + text.encode(self.encoding)

    def placed(self, outcome: FileOutcome) -> FileOutcome:
        """The outcome of the text as that of the file."""
        return outcome


def decode(data: bytes, path: str = "") -> Decoded | Notebook:
    """Read the bytes of a module or, where `path` ends as one, of a notebook.

    Raises SourceError, with the place, where Python itself would not read them, and for what
    positions cannot be kept
    through: null bytes and carriage returns that end a line alone.
    """
    if is_notebook(path):
        from amp_migrate.project import notebook

        return notebook.decode(data)
    mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    body = data[len(mark) :]
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise SourceError(
            "UTF-16, which Python does not read; save the file as UTF-8", 1, 1
        )
    _reject(
        body,
        body.find(b"\0"),
        "a null byte, so this is no Python source; exclude the file",
    )
    lone = _LONE_RETURN.search(body)
    _reject(
        body,
        lone.start() if lone else -1,
        "a carriage return alone ends this line; convert the file's line ends to \\n or \\r\\n",
    )
    decoded = Decoded(*_text(body, _encoding(data)), mark)
    if decoded.encode(decoded.text) != data:
        raise SourceError(
            f"not all bytes come back when it is read as {decoded.encoding}; save it as UTF-8",
            1,
            1,
        )
    return decoded


def _encoding(data: bytes) -> str:
    try:
        name, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError as error:
        raise SourceError(
            f"{error.msg}; mend the coding comment or save the file as UTF-8",
            1,
            1,
        ) from None
    return "utf-8" if name == "utf-8-sig" else name


def _text(body: bytes, encoding: str) -> tuple[str, str]:
    try:
        return body.decode(encoding), encoding
    except UnicodeDecodeError as error:
        line, column = _place(body, error.start)
        what = f"byte 0x{body[error.start]:02x} is no {encoding} text"
        raise SourceError(
            f"{what}; save the file as UTF-8 or add a coding comment",
            line,
            column,
        ) from None
    except (LookupError, UnicodeError):
        message = (
            f"its coding comment names {encoding}, which is no text encoding of Python; "
            "save the file as UTF-8"
        )
        raise SourceError(message, 1, 1) from None


def _reject(body: bytes, offset: int, message: str) -> None:
    if offset >= 0:
        raise SourceError(message, *_place(body, offset))


def _place(body: bytes, offset: int) -> tuple[int, int]:
    """1-based line and column, in bytes."""
    start = max(body.rfind(b"\n", 0, offset), body.rfind(b"\r", 0, offset)) + 1
    return len(
        re.findall(rb"\r\n|\r|\n", body[:offset])
    ) + 1, offset - start + 1
