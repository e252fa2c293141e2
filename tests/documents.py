"""What the documents show, made anew: `python -m tests.documents`.

`docs/options.md` and `docs/rules.md` are what commands print. In the other documents, the output in
a block marked `console` is what its commands print, one after another, in a copy of `docs/demo`.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from amp_migrate.cli import COMMANDS
from amp_migrate.report import pages

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
WRITTEN = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^\$ (.*)\n", re.MULTILINE)


class Workshop:
    """A copy of the demo programs, with `amp-migrate` on PATH, and nothing of this machine's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "work"
        shutil.copytree(DOCS / "demo", self.folder)
        tools = folder / "bin"
        tools.mkdir()
        for name, words in (
            ("amp-migrate", "-m amp_migrate "),
            ("pre-commit", "-m pre_commit "),
            ("python", ""),
        ):
            tool = tools / name
            tool.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {words}"$@"\n')
            tool.chmod(0o755)
        self.environment = {
            "HOME": str(folder),
            "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
        }

    def run(self, command: str) -> tuple[int, str]:
        """The exit status of a command line, and all that it prints."""
        ran = subprocess.run(
            ["sh", "-c", command],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return ran.returncode, ran.stdout


def replayed(text: str) -> str:
    """A document with the output of its console blocks made anew."""
    with tempfile.TemporaryDirectory() as folder:
        workshop = Workshop(Path(folder))

        def block(found: re.Match[str]) -> str:
            commands = _COMMAND.findall(found[1])
            said = [f"$ {command}\n{workshop.run(command)[1]}" for command in commands]
            return "```console\n" + "".join(said) + "```"

        return _BLOCK.sub(block, text)


def options() -> str:
    """What `--help` prints, for every command."""
    with tempfile.TemporaryDirectory() as folder:
        workshop = Workshop(Path(folder))
        parts = ["# Options\n\nWhat `--help` prints.\n"]
        for words in ("", *COMMANDS):
            name = f"amp-migrate {words}".strip()
            said = workshop.run(f"{name} --help")[1]
            parts.append(f"## {name}\n\n```\n{said.rstrip()}\n```\n")
    return "\n".join(parts)


def rules() -> str:
    """What `explain` lists, with links to the pages."""
    parts = ["# Rules and reasons\n\nWhat `amp-migrate explain` lists. `[*]`: has a safe fix.\n"]
    for title, found in pages.by_topic().items():
        lines = [f"| [{page.name}]({_link(page)}) | {_cell(page)} |" for page in found]
        parts.append(f"## {title}\n\n| | |\n|---|---|\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def _link(page: pages.Page) -> str:
    return f"../rules/{page.name}.md"


def _cell(page: pages.Page) -> str:
    marks = " [*]" if page.fix == "safe" else ""
    off = " Off by default." if page.default is False else ""
    return page.summary.replace("|", "\\|") + off + marks


GENERATED: dict[str, Callable[[], str]] = {"options.md": options, "rules.md": rules}


def main() -> None:
    """Write all of them."""
    for name, make in GENERATED.items():
        (DOCS / name).write_text(make(), encoding="utf-8")
    for path in WRITTEN:
        if path.name not in GENERATED:
            path.write_text(replayed(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
