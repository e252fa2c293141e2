"""One file on its way through the migrator: bytes, text, new text, bytes; and back to disk."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from amp_migrate import regular_files
from amp_migrate.config import Settings
from amp_migrate.display import shown
from amp_migrate.model.syntax.nesting import is_nested_too_deeply
from amp_migrate.outcome import FileOutcome
from amp_migrate.pipeline.annotate import annotated
from amp_migrate.pipeline.changes import changes
from amp_migrate.pipeline.deep_stack import with_deep_stack
from amp_migrate.project.errors import SourceError, reading
from amp_migrate.project.prefilter import is_notebook, may_train, names_old_amp
from amp_migrate.project.text import decode

_FRAMES = 40
"""As many of a traceback's frames tell what has failed, where it ran in a circle, too."""


@dataclass(frozen=True)
class Rewritten:
    """What became of one file, and its bytes before and after where they differ."""

    outcome: FileOutcome
    before: bytes = b""
    after: bytes = b""
    encoding: str = "utf-8"
    internal: str | None = None
    """The traceback, where the tool itself failed."""


def failed(path: str, error: SourceError) -> Rewritten:
    """A file that could not be processed."""
    return Rewritten(FileOutcome(path, "failed", error=error.at(path)))


def sift(path: Path) -> Rewritten | int:
    """Settle a file that needs no parser; the size in bytes of one that does."""
    return sift_file(path)[0]


def sift_file(path: Path) -> tuple[Rewritten | int, bytes]:
    """The same, with the bytes of the file; none where it cannot be read."""
    try:
        data = regular_files.read(path)
    except OSError as error:
        return failed(shown(path), reading(error)), b""
    return sift_bytes(shown(path), data), data


def sift_bytes(path: str, data: bytes) -> Rewritten | int:
    """The same for bytes at hand; a notebook is one that ends in `.ipynb`."""
    if may_train(data, is_notebook(path)) or names_old_amp(data):
        return len(data)
    return Rewritten(FileOutcome(path, "unchanged"))


def rewrite_file(path: Path, settings: Settings) -> Rewritten:
    """Migrate the file at `path` in memory; never raises for what the file or the migrator does
    wrong.
    """
    try:
        data = regular_files.read(path)
    except OSError as error:
        return failed(shown(path), reading(error))
    return rewrite_bytes(shown(path), data, settings)


def rewrite_bytes(path: str, data: bytes, settings: Settings) -> Rewritten:
    """Migrate `data`, the content of a module called `path`."""
    return with_deep_stack(_rewritten, path, data, settings)


def _rewritten(path: str, data: bytes, settings: Settings) -> Rewritten:
    text = ""
    try:
        from amp_migrate.pipeline.migrate import migrate_text

        source = decode(data, path)
        text = source.text
        outcome = told(
            migrate_text(source.text, path, settings), source.text, settings
        )
        outcome = source.placed(outcome)
        after = (
            data if outcome.output is None else source.encode(outcome.output)
        )
    except SourceError as error:
        return failed(path, error)
    except SyntaxError as error:
        return failed(path, syntax_error(error))
    except (RecursionError, MemoryError) as error:
        return out_of_depth(path, [text], error)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        # One file's mishap must not cost the others; a panic in LibCST is no Exception.
        return crashed(path, error)
    return Rewritten(settled(outcome), data, after, source.encoding)


def told(outcome: FileOutcome, text: str, settings: Settings) -> FileOutcome:
    """An outcome with what was changed in `text`, and with comments where they are asked for."""
    if outcome.output is None or outcome.output == text:
        return outcome
    output = outcome.output
    if settings.annotate:
        output = annotated(text, output)
    return dataclasses.replace(
        outcome, output=output, changes=changes(text, outcome.output)
    )


def settled(outcome: FileOutcome) -> FileOutcome:
    """An outcome without the text, which goes by its bytes; where the file failed, no loop of it
    is migrated.
    """
    loops = tuple(
        loop
        for loop in outcome.loops
        if outcome.status != "failed" or loop.status != "migrated"
    )
    return dataclasses.replace(outcome, loops=loops, output=None)


def out_of_depth(
    path: str, texts: Iterable[str], error: RecursionError | MemoryError
) -> Rewritten:
    """Files that no parser gets through, or among whose values the tool itself ran in a circle."""
    if not any(map(is_nested_too_deeply, texts)):
        return crashed(path, error)
    message = "nested too deeply to be read; split its longest expression, or exclude it"
    return failed(path, SourceError(message))


def too_much(path: str) -> Rewritten:
    """A file of which the whole takes too long, though each loop by itself does not."""
    message = "its loops lead to more than can be followed; exclude what they do not need"
    return failed(path, SourceError(message))


def crashed(path: str, error: BaseException) -> Rewritten:
    """A file on which the tool itself failed."""
    import traceback

    what = f"internal error ({type(error).__name__}: {error})"
    told = SourceError(
        f"{what}; the file is unchanged. Please report it with the file and the traceback"
    )
    return dataclasses.replace(
        failed(path, told),
        internal="".join(traceback.format_exception(error, limit=-_FRAMES)),
    )


def syntax_error(error: SyntaxError) -> SourceError:
    """What the user can do about a file that does not parse."""
    import platform

    reader = f"Python {platform.python_version()}"
    message = (
        f"{error.msg} (read by {reader}); mend it, use the Python it is written for, or "
        "exclude the file"
    )
    return SourceError(message, error.lineno or 1, max(error.offset or 1, 1))
