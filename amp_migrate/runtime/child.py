"""The process in which a program runs once: set up, run, write the trace."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import traceback
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from amp_migrate.runtime.against import original_places, original_sites
from amp_migrate.runtime.entered import Marks
from amp_migrate.runtime.import_hook import (
    Compiler,
    exec_module,
    exec_script,
    install,
)
from amp_migrate.runtime.job import Job
from amp_migrate.runtime.scalars import Scalars
from amp_migrate.runtime.spawned import follow

if TYPE_CHECKING:
    from amp_migrate.runtime.session import Session

_OURS = str(Path(__file__).resolve().parents[1]) + os.sep
_EXIT = os._exit
_LIBRARY = os.path.dirname(os.__file__) + os.sep
"""Python's own modules, and the packages that are installed for it."""


def main(order: str) -> int:
    """Run the job written at `order`; 0 when it came to its end or to the wanted number
    of steps.
    """
    rank = os.environ.get("RANK", "0")
    job = Job.read(Path(order))
    folder = Path(job.folder) / f"rank{rank}"
    folder.mkdir(parents=True, exist_ok=True)
    marks = Marks() if job.mark_lines else None
    compiler = Compiler(job.rewrites.get, job.switch, marks, job.shown)
    install(compiler)
    scalars = Scalars(job.metric)
    if job.metric:
        compiler.returned = True
        scalars.listen()
    follow(job.rewrites, job.switch, job.device == "cpu", folder)
    _keep_sockets(folder)

    from amp_migrate.runtime import session  # torch: seconds, and only here

    probe = session.start(job, folder)
    _end_as_usual()
    status, error, place = _run(job, compiler)
    probe.probe.trace.not_entered = marks.missed() if marks else []
    probe.probe.trace.scalars = scalars.values
    if compiler.back:
        _by_original(probe, compiler)
    session.finish(probe, folder, status, error, place)
    _leave(0 if status != "raised" else 1)
    return 0


def _run(job: Job, compiler: Compiler) -> tuple[str, str, str]:
    """How the program ended, its error as Python shows it, and the user's line that it is from."""
    from amp_migrate.runtime.probe import StopProgram

    try:
        if job.as_module:
            exec_module(job.program, job.arguments)
        else:
            exec_script(job.program, job.arguments, compiler)
    except StopProgram:
        return "stopped", "", ""
    except SystemExit as stop:
        if stop.code in (None, 0):
            return "finished", "", ""
        return "raised", f"SystemExit: {stop.code}", _place(stop)
    except BaseException as error:  # whatever the program raises is its result
        shown = _shown(error)
        sys.stderr.write(shown)
        return "raised", shown, _place(error)
    return "finished", "", ""


def _shown(error: BaseException) -> str:
    """As Python shows it, without the frames in which torch's functions are watched."""
    told = traceback.TracebackException(
        type(error), error, user_frames(error.__traceback__)
    )
    one: traceback.TracebackException | None = told
    while one is not None:
        frames = [x for x in one.stack if not x.filename.startswith(_OURS)]
        one.stack[:] = frames or one.stack
        one = one.__cause__ or one.__context__
    return "".join(told.format())


def _end_as_usual() -> None:
    """Have `os._exit` of the program's main thread end it as `sys.exit` does: the trace is still to
    be written.
    """
    process, thread = os.getpid(), threading.get_ident()

    def leave(status: int) -> None:
        if (os.getpid(), threading.get_ident()) == (process, thread):
            os._exit = _EXIT
            raise SystemExit(status)
        _EXIT(status)

    os._exit = leave  # type: ignore[assignment]


def _keep_sockets(folder: Path) -> None:
    """Those of `multiprocessing` go with the run's folder: nothing is tidied up at its end."""
    process: Any = multiprocessing.current_process()
    process._config["tempdir"] = str(folder)


def _by_original(session: Session, compiler: Compiler) -> None:
    trace = session.probe.trace
    trace.loss_places = list(trace.loss_sites)
    trace.loss_sites = original_sites(trace.loss_sites, compiler.back)
    if session.diagnosis is not None:
        session.diagnosis.places = original_places(
            session.diagnosis.places, compiler.back
        )


def _place(error: BaseException) -> str:
    """The innermost line that belongs to no installed package, and not to Python."""
    own = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((_OURS, _LIBRARY, "<"))
        and "site-packages" not in frame.filename
    ]
    return f"{own[-1].filename}:{own[-1].lineno}" if own else ""


def user_frames(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from the first frame on that is not this package's or the import system's."""
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(
        (_OURS, "<frozen")
    ):
        trace = trace.tb_next
    return trace


def _leave(code: int) -> None:
    """End without waiting for what the program left behind: loader workers, threads, process
    groups.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    _EXIT(code)
