"""`amp-migrate` as a LibCST codemod.

`python -m libcst.tool codemod -x --no-format amp_migrate.codemod.AmpMigrateCommand FILE...`

`-x` names a command outside LibCST; without `--no-format` LibCST runs Black over every file that it
changes.
"""

from __future__ import annotations

import argparse
import codecs
from pathlib import Path

import libcst as cst
from libcst.codemod import CodemodCommand, CodemodContext, SkipFile

from amp_migrate.config import Settings


class AmpMigrateCommand(CodemodCommand):
    """Rewrites the float32 training loops of a module to mixed precision."""

    DESCRIPTION = (
        "Rewrite plain PyTorch training loops to automatic mixed precision."
    )

    def __init__(
        self,
        context: CodemodContext,
        dtype: str = "float16",
        device: str | None = None,
    ) -> None:
        super().__init__(context)
        self.settings = Settings()._replace(dtype=dtype, device=device)

    @staticmethod
    def add_args(arg_parser: argparse.ArgumentParser) -> None:
        """The options of the command line that change the rewritten code most."""
        arg_parser.add_argument(
            "--dtype",
            choices=("float16", "bfloat16", "auto"),
            default="float16",
        )
        arg_parser.add_argument(
            "--device",
            default=None,
            help="accelerator of programs without device code",
        )

    def transform_module_impl(self, tree: cst.Module) -> cst.Module:
        """The migrated module.

        Raises:
            SkipFile: there is nothing to migrate, or what there is has been refused; the message
                says which.
        """
        from amp_migrate.pipeline.migrate import migrate_text

        outcome = migrate_text(
            tree.code, self.context.filename or "<module>", self.settings
        )
        for loop in outcome.loops:
            if loop.status == "refused":
                self.warn(
                    f"line {loop.line}: {loop.scope}: {loop.reason}: {loop.message}"
                )
        if outcome.status == "failed":
            raise ValueError(outcome.error or "amp-migrate failed")
        if outcome.output is None:
            raise SkipFile(f"amp-migrate: {outcome.status}")
        return cst.parse_module(outcome.output).with_changes(
            encoding=self._encoding(tree)
        )

    def _encoding(self, tree: cst.Module) -> str:
        """LibCST forgets the byte order mark of the file."""
        path = Path(self.context.filename or "")
        if path.is_file() and path.read_bytes().startswith(codecs.BOM_UTF8):
            return "utf-8-sig"
        return tree.encoding
