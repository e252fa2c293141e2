"""Loops without AMP, mended by the migrator."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial

from amp_migrate.checks._finding import Finding
from amp_migrate.config import Settings
from amp_migrate.pipeline.lint.fix import Mend, Mended
from amp_migrate.pipeline.lint.results import Left, Linted
from amp_migrate.pipeline.migrate import migrate_texts
from amp_migrate.project.module_graph import Project


def by_migration(project: Project | None = None) -> Mend:
    """Mend loops as `migrate` does. `project` is the tree around the file: what belongs to other
    files as well is left to `migrate`.
    """
    return partial(_migrated, project=project)


def _migrated(
    text: str,
    path: str,
    settings: Settings,
    wanted: Sequence[Finding],
    linted: Linted,
    project: Project | None,
) -> Mended:
    """What `migrate` makes of the file; nothing where it would look at other files as well."""
    if wanted[0].rule in linted.suppressed:
        why = "another loop of this file is ignored, and a file is migrated as a whole"
        return text, [], [Left(one, why) for one in wanted]
    joint = migrate_texts(
        {path: text}, settings, project, hold=project is not None
    )
    if path not in joint.outcomes:
        near = ", ".join(os.path.relpath(file) for file in joint.company[:3])
        why = f"it depends on other files ({near}): `amp-migrate` rewrites them together"
        return text, [], [Left(one, why) for one in wanted]
    outcome = joint.outcomes[path]
    if outcome.output is None:
        why = outcome.error or "the migrator leaves it alone"
        return text, [], [Left(one, why) for one in wanted]
    return outcome.output, list(wanted), []
