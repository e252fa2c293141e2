"""Processes that the program starts by `multiprocessing`: they import its files anew, and rewritten
too.

A spawned process runs the parent's main script again, under the name `__mp_main__`, outside the
import system. So the parent has it started through this module, which installs the hook first and
then does what `multiprocessing` does.
"""

from __future__ import annotations

import functools
import json
import multiprocessing
import multiprocessing.process
import multiprocessing.spawn
import os
import re
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from amp_migrate.runtime.import_hook import Compiler, install
from amp_migrate.runtime.run_folder import own_folder

_PLACE = "AMP_MIGRATE_SPAWNED"


_PYTHON = re.compile(
    r"python[\d.]*(\.exe)?|torchrun|accelerate|deepspeed|horovodrun|mpirun"
)
_COMMANDS = {
    "subprocess.Popen": 1,
    "os.system": 0,
    "os.posix_spawn": 1,
    "os.spawn": 2,
    "os.exec": 1,
}
"""Events of the interpreter that start a program: where the words of its command are."""


def note_trainers(*others: str) -> list[str]:
    """From now on, the lines that start processes that may train, once for each: by
    `multiprocessing` (other than those that load data), by a fork, or as a command that runs
    Python. No file that begins like `others` is the program's.
    """
    workers = os.path.dirname(multiprocessing.__file__)
    foreign = (*others, workers, os.path.dirname(os.__file__), "<")
    started: list[str] = []
    starting: list[str] = []

    def note(otherwise: str) -> None:
        started.append(_own_line(foreign) or otherwise)

    def heard(event: str, arguments: tuple[Any, ...]) -> None:
        if starting or (event != "os.fork" and event not in _COMMANDS):
            return
        if event == "os.fork" or _runs_python(arguments[_COMMANDS[event]]):
            note(event)

    _count_starts(starting, note)
    sys.addaudithook(heard)
    return started


def _own_line(foreign: tuple[str, ...]) -> str:
    """The innermost line of the program itself."""
    frames = reversed(traceback.extract_stack())
    own = (one for one in frames if not one.filename.startswith(foreign))
    return next((f"{one.filename}:{one.lineno}" for one in own), "")


def _count_starts(starting: list[str], note: Callable[[str], None]) -> None:
    """Note each process that `multiprocessing` starts; `starting` is not empty meanwhile."""
    kind: Any = multiprocessing.process.BaseProcess
    start: Callable[[Any], None] = kind.start

    def counted(process: Any) -> None:
        home = getattr(process._target, "__module__", "")
        if not home.startswith("torch.utils.data"):
            note(process.name)
        starting.append(process.name)
        try:
            start(process)
        finally:
            starting.pop()

    kind.start = counted


def _runs_python(command: Any) -> bool:
    words = (
        [command]
        if isinstance(command, (str, bytes, os.PathLike))
        else list(command or ())
    )
    first = os.fsdecode(words[0]) if words else ""
    first = first if len(words) > 1 else next(iter(first.split()), "")
    return bool(_PYTHON.fullmatch(os.path.basename(first)))


def follow(
    rewrites: Mapping[str, str],
    switch: bool | None,
    simulated: bool = False,
    folder: Path | None = None,
) -> None:
    """Have this process's spawned children use the same rewritten files, and the simulated GPU. The
    texts wait in a file of `folder`, from the first that is spawned; without one, in a folder that
    goes with this process.
    """
    if not rewrites and not simulated:
        return
    told = {
        "rewrites": dict(rewrites),
        "switch": switch,
        "simulated": simulated,
    }

    @functools.cache
    def write() -> None:
        place = (folder or own_folder()) / "spawned.json"
        place.write_text(json.dumps(told), encoding="utf-8")
        os.environ[_PLACE] = str(place)

    _start_through_here(write)


def _start_through_here(ready: Callable[[], None]) -> None:
    """Have spawned processes begin here; `ready` is called before each."""
    spawn: Any = multiprocessing.spawn
    original: Callable[..., list[str]] = spawn.get_command_line
    root = str(Path(__file__).resolve().parents[2])

    def command_line(**keywords: Any) -> list[str]:
        ready()
        command = original(**keywords)
        if "-c" in command:
            place = command.index("-c") + 1
            begin = (
                f"import sys; sys.path.insert(0, {root!r}); from amp_migrate.runtime.spawned "
                "import begin; begin()"
            )
            command[place] = f"{begin}; {command[place]}"
        return command

    spawn.get_command_line = command_line


def begin() -> None:
    """In the spawned process, before anything of the program is imported."""
    del sys.path[0]
    data = json.loads(Path(os.environ[_PLACE]).read_text(encoding="utf-8"))
    compiler = Compiler(data["rewrites"].get, data["switch"])
    install(compiler)
    # Its own children find the texts where it has.
    _start_through_here(lambda: None)
    if data["simulated"]:
        from amp_migrate.runtime import simulated_gpu

        simulated_gpu.install()
        simulated_gpu.own()
    spawn: Any = multiprocessing.spawn
    original: Callable[[str], None] = spawn._fixup_main_from_path

    def fixup(main_path: str) -> None:
        code = compiler.code(main_path)
        if code is None:
            original(main_path)
            return
        main: Any = ModuleType("__mp_main__")
        main.__file__ = main_path
        spawn.old_main_modules.append(sys.modules["__main__"])
        exec(code, main.__dict__)
        sys.modules["__main__"] = sys.modules["__mp_main__"] = main

    spawn._fixup_main_from_path = fixup
