"""What the user asked for: flags and `[tool.amp-migrate]` joined into one frozen `Settings`."""

from __future__ import annotations

import functools
import keyword
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from amp_migrate.records import NamedTuple
from amp_migrate.regular_files import read_nearby
from amp_migrate.torch_floor import project_root, target_for

DTYPES = ("float16", "bfloat16", "auto")
_SHORT_DTYPES = {"fp16": "float16", "half": "float16", "bf16": "bfloat16"}
DEVICES = ("cuda", "xpu", "mps", "cpu")
OLDEST_TORCH = (1, 6)
"""The first torch with `torch.cuda.amp`."""


class Option(NamedTuple):
    """An option that a program gets for its AMP (`--switch`)."""

    name: str
    """As an attribute: `mixed_precision` of `--mixed-precision`."""
    default: str = "float16"


class Settings(NamedTuple):
    """Options of every command; the defaults are those of the command line."""

    dtype: str = "float16"
    """`float16`, `bfloat16` or `auto`."""
    device: str | None = None
    """Accelerator that a program without device code may use (`--device cuda`)."""
    eval: bool = False
    guard_scheduler: bool = False
    target_torch: tuple[int, int] | None = None
    """Oldest torch that the output must run on; None is the current one."""
    admitted_torch: tuple[int, int] | None = None
    """Oldest torch that the project of the named paths admits: for files whose own folders say
    nothing, where nobody named a target.
    """
    unsafe: bool = False
    strict: bool = False
    switch: Option | None = None
    """The option by which the rewritten program turns AMP on and off; `dtype` is `auto` then."""
    annotate: bool = False
    """Whether new lines get a comment that says why."""
    leave: tuple[str, ...] = ()
    """Loops that stay as they are, each `FILE:SCOPE`."""
    exclude: tuple[str, ...] = ()
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def leaves(self, path: str, scope: str) -> bool:
        """Whether the loop of a scope is named as one that stays."""
        name = f"{path}:{scope}"
        return any(
            name == one or name.endswith(f"/{one}") for one in self.leave
        )


class ConfigError(ValueError):
    """A setting that cannot be used; the message names the file and the key, or the
    flag's value.
    """


class Config(NamedTuple):
    """Settings, and the folder that the file's `exclude` and `per-file-ignores` are relative to."""

    settings: Settings
    folder: Path


Reader: TypeAlias = Callable[[Any], Any]


def load(
    paths: Sequence[Path], flags: Mapping[str, Any] | None = None
) -> Config:
    """Join `flags` over the nearest `pyproject.toml` that has a `[tool.amp-migrate]` table.

    The search starts at the folder that all `paths` share, or at the current one where there are
    none. A flag that is None, False or empty was not given. Where nobody names the oldest torch,
    the project's dependencies do. Raises ConfigError.
    """
    start = _common(paths)
    folder, table = _nearest(start)
    admitted = target_for(start, project_root(start))
    given = {
        key: value
        for key, value in (flags or {}).items()
        if value not in (None, False, (), [])
    }
    return Config(
        switched(
            Settings(admitted_torch=admitted)._replace(**{**table, **given})
        ),
        folder,
    )


def switched(settings: Settings) -> Settings:
    """The settings where the program has a switch of its own: it chooses its dtype while it
    runs, and `dtype` is what it chooses by itself.
    """
    if settings.switch is None:
        return settings
    option = settings.switch._replace(default=settings.dtype)
    return settings._replace(switch=option, dtype="auto")


def _common(paths: Sequence[Path]) -> Path:
    if not paths:
        return Path.cwd()
    common = Path(os.path.commonpath([path.absolute() for path in paths]))
    return (common if common.is_dir() else common.parent).resolve()


def _nearest(start: Path) -> tuple[Path, dict[str, Any]]:
    for folder in (start, *start.parents):
        file = folder / "pyproject.toml"
        data = read_nearby(file) or b""
        # Most files say nothing about this tool; they are passed over without parsing.
        table = _table(file, data) if b"amp-migrate" in data else None
        if table is not None:
            return folder, _checked(file, table)
    return start, {}


def _table(file: Path, data: bytes) -> dict[str, Any] | None:
    document = _parsed(file, data)
    tool = document.get("tool", {})
    table = tool.get("amp-migrate") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise ConfigError(f"{file}: tool.amp-migrate must be a table")
    return table


@functools.lru_cache(maxsize=8)
def _parsed(file: Path, data: bytes) -> dict[str, Any]:
    """What a settings file says; it is asked for its settings and for the oldest torch."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(data.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{file}: {error}") from None


def _checked(file: Path, table: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key.replace("-", "_"): _value(
            f"{file}: tool.amp-migrate.{key}", key, value
        )
        for key, value in table.items()
    }


def _value(place: str, key: str, value: object) -> object:
    if key not in READERS:
        import difflib  # it takes long to import, and a hook needs none of it

        close = difflib.get_close_matches(key, READERS, 1)
        raise ConfigError(
            f"{place}: no such setting"
            + (f"; did you mean {close[0]}?" if close else "")
        )
    try:
        return READERS[key](value)
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from None


def dtype(value: object) -> str:
    """Read a dtype, by its name or by a short one; raises ConfigError for another word."""
    return _named(value, DTYPES)


def verified_dtype(value: object) -> str:
    """The same of what `verify` compares: one precision, or both."""
    return _named(value, ("float16", "bfloat16", "both"))


def _named(value: object, names: tuple[str, ...]) -> str:
    word = value.lower() if isinstance(value, str) else ""
    name = _SHORT_DTYPES.get(word, word)
    if name not in names:
        raise ConfigError(f"must be one of {', '.join(names)}, not {value!r}")
    return name


def device(value: object) -> str:
    """Read a device type; raises ConfigError for another word."""
    if value not in DEVICES:
        raise ConfigError(f"must be one of {', '.join(DEVICES)}, not {value!r}")
    return str(value)


def switch(value: object) -> Option:
    """Read the name of an option; raises ConfigError for what cannot be one."""
    name = value.lstrip("-").replace("-", "_") if isinstance(value, str) else ""
    if not name.isidentifier() or not name.isascii() or keyword.iskeyword(name):
        raise ConfigError(
            f'must be the name of an option, like "amp", not {value!r}'
        )
    return Option(name)


def torch_version(value: object) -> tuple[int, int]:
    """Read a version `X.Y`; raises ConfigError for what is none, and for a torch without mixed
    precision.
    """
    found = (
        re.fullmatch(r"(\d+)\.(\d+)(?:\.\d+)?", value)
        if isinstance(value, str)
        else None
    )
    if not found:
        raise ConfigError(
            f'must be a version like "2.4" (a string), not {value!r}'
        )
    version = int(found[1]), int(found[2])
    if version < OLDEST_TORCH:
        raise ConfigError(
            f"torch {value} has no automatic mixed precision; the oldest that has is 1.6"
        )
    return version


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"must be true or false, not {value!r}")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigError(f"must be a string, not {value!r}")
    return value


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)) or not all(
        isinstance(item, str) for item in value
    ):
        raise ConfigError(f"must be a list of strings, not {value!r}")
    return tuple(value)


def _per_file(value: object) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not isinstance(value, dict):
        raise ConfigError(
            f"must be a table from patterns to lists of rules, not {value!r}"
        )
    return tuple((pattern, _texts(rules)) for pattern, rules in value.items())


def loop_name(value: object) -> str:
    """`FILE:SCOPE`, as the report names a loop. Raises ConfigError."""
    file, mark, scope = str(value).rpartition(":")
    if not (file and mark and scope):
        raise ConfigError(
            f"{value!r} names no loop; it takes FILE:SCOPE, as in train.py:main"
        )
    return str(value)


READERS: Mapping[str, Reader] = {
    "dtype": dtype,
    "device": device,
    "eval": _flag,
    "guard-scheduler": _flag,
    "target-torch": torch_version,
    "unsafe": _flag,
    "strict": _flag,
    "switch": switch,
    "annotate": _flag,
    "exclude": _texts,
    "select": _texts,
    "ignore": _texts,
    "extend-select": _texts,
    "per-file-ignores": _per_file,
}
