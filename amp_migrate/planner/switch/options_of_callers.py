"""Files that run a loop and hand it their command line, which has an option for AMP: only with them
can the loop obey it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Scope
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.project.import_paths import resolved
from amp_migrate.project.module_graph import Project
from amp_migrate.project.nearby import text_of
from amp_migrate.torch_facts.amp_api import OWN_CHOICES, OWN_OPTIONS

_NAMES = (one.replace("_", "[_-]") for one in (*OWN_OPTIONS, *OWN_CHOICES))
_DECLARED = re.compile(
    rf"add_argument\(\s*['\"]--({'|'.join(_NAMES)})['\"]".encode()
)
_MOST = 40


def files_with_switches(
    program: Program, project: Project, scope: Scope
) -> Iterator[str]:
    """The callers' files, where a function reads settings that it is handed.

    Others would only cost: what they declare cannot be read where the scaler is made.
    """
    if not project.imports or not _reads_settings(scope):
        return
    assert isinstance(scope.node, FUNCTIONS)
    here = resolved(scope.module.path)
    linked = program.module.paths
    for user in project.users(here, scope.node.name)[:_MOST]:
        if user not in linked and _DECLARED.search(text_of(user) or b""):
            yield user


def _reads_settings(scope: Scope) -> bool:
    """`args.lr` of `def train(args, model)`."""
    if not isinstance(scope.node, FUNCTIONS):
        return False
    names = {one.arg for one in scope.parameters()} - {scope.self_name}
    return any(
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in names
        for statement in scope.body
        for node in nodes_in(statement)
    )
