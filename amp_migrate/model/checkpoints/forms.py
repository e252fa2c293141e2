"""Which keys a checkpoint has, and where a program asks for them: older files lack some."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Scope
from amp_migrate.model.syntax.queries import nodes_in

_PARTS = ("keys", "get")
_SEQUENCES = (ast.Tuple, ast.List, ast.ListComp)


def keys_of(made: ast.expr) -> frozenset[object]:
    """The keys that are written where a dict is made."""
    if isinstance(made, ast.Dict):
        keys = [key for key in made.keys if isinstance(key, ast.Constant)]
        return frozenset(key.value for key in keys)
    given = made.keywords if isinstance(made, ast.Call) else []
    return frozenset(one.arg for one in given if one.arg is not None)


def lacks_one(
    program: Program, held: ast.expr, keys: frozenset[object]
) -> bool:
    """Whether a dict has been found to lack one of the keys where it is read.

    `if "epoch" in state: ... else: state.items()`, where each that is saved has an epoch.
    """
    module, name = program.module, dotted_name(held)
    inner: ast.AST = held
    while name is not None and not isinstance(inner, (*FUNCTIONS, ast.Module)):
        outer = module.parents[inner]
        found = (
            _asked(outer, inner, keys) if isinstance(outer, ast.If) else None
        )
        if found is not None and dotted_name(found) == name:
            at = program.reaching.at
            return at(found, name).bindings == at(held, name).bindings
        inner = outer
    return False


def _asked(
    branch: ast.If, inner: ast.AST, keys: frozenset[object]
) -> ast.expr | None:
    """What lacks one of the keys in the arm of a branch that `inner` stands in."""
    test = branch.test
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None
    lacking = branch.orelse if isinstance(test.ops[0], ast.In) else []
    if isinstance(test.ops[0], ast.NotIn):
        lacking = branch.body
    is_key = literal(test.left) in keys
    return test.comparators[0] if is_key and inner in lacking else None


def literal(key: ast.expr | None) -> object:
    """A key that is written as a constant; the expression itself for any other."""
    return key.value if isinstance(key, ast.Constant) else key


def is_other_file(program: Program, load: ast.Call) -> bool:
    """Whether a file is loaded that has another name than each of those that are saved, or that
    is saved as a list or a tuple.
    """
    saves = program.remembered(is_other_file, lambda: _saves(program))
    loaded = load.args[0] if load.args else None
    names = {literal(_path(save)) for save in saves}
    known = all(isinstance(name, str) for name in names)
    if known and isinstance(text := literal(loaded), str):
        return text not in names
    place = _place(program, loaded)
    same = [s for s in saves if place and _place(program, _path(s)) == place]
    return bool(same) and all(_is_sequence(program, s) for s in same)


def _saves(program: Program) -> list[ast.Call]:
    return [
        call
        for scope in program.module.scopes.values()
        for call in scope.calls
        if program.canonical(call.func) == "torch.save"
    ]


def _path(save: ast.Call) -> ast.expr | None:
    """What `torch.save` is given for a file."""
    return save.args[1] if len(save.args) > 1 else None


def _place(program: Program, path: ast.expr | None) -> object:
    """What tells a file of the same object apart: `self.processed_paths[0]` in one class."""
    if path is None:
        return None
    scope = program.module.scope_of(path)
    names = {one.id for one in nodes_in(path) if isinstance(one, ast.Name)}
    owner = program.graph.class_around(scope)
    if owner is None or scope.self_name is None:
        return None
    is_own = names == {scope.self_name}
    return (owner, ast.dump(path)) if is_own else None


def _is_sequence(program: Program, save: ast.Call) -> bool:
    scope: Scope = program.module.scope_of(save)
    made = program.values.of(save.args[0], scope).origin or save.args[0]
    return isinstance(made, _SEQUENCES)


def is_of_tensors(name: str) -> bool:
    """`torch.allclose(reference, x)`: what it is given is a tensor, and no checkpoint. What is
    saved again is read by whoever loads it.
    """
    head, _, rest = name.partition(".")
    return head == "torch" and rest.isidentifier()


def skips_other_names(program: Program, loop: ast.For) -> bool:
    """`for name, value in state.items(): if name not in own: continue`, where `own` is what a
    module's `state_dict` gives: a name more is passed over.
    """
    target, first = loop.target, loop.body[0]
    key = target.elts[0] if isinstance(target, ast.Tuple) else target
    test = first.test if isinstance(first, ast.If) else None
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return False
    assert isinstance(first, ast.If)
    goes_on = len(first.body) == 1 and isinstance(first.body[0], ast.Continue)
    skips = isinstance(test.ops[0], ast.NotIn) and goes_on
    alone = len(loop.body) == 1 and not first.orelse
    takes = isinstance(test.ops[0], ast.In) and alone
    held = test.comparators[0]
    if not (skips or takes) or dotted_name(test.left) != dotted_name(key):
        return False
    name = dotted_name(held)
    made = program.reaching.at(held, name).bindings if name else ()
    return bool(made) and all(_is_state(one.value) for one in made)


def _is_state(made: ast.expr | None) -> bool:
    func = made.func if isinstance(made, ast.Call) else None
    return isinstance(func, ast.Attribute) and func.attr == "state_dict"


def is_only_read(program: Program, state: ast.expr) -> bool:
    """Whether nothing but entries of a state is taken, `opt.state_dict()["param_groups"]`, or it is
    given back to what it was asked of: `opt.load_state_dict(state)`.
    """
    taken = _asked_of(state)
    return _is_read(program, state, taken) or _given_back(program, state)


def _is_read(program: Program, state: ast.expr, of: str | None) -> bool:
    above = program.module.parents[state]
    if isinstance(above, ast.Subscript):
        return above.value is state
    if isinstance(above, ast.Attribute):
        return above.attr in _PARTS
    if isinstance(above, ast.Call):
        return of is not None and of == _loader(above)
    if not isinstance(above, ast.Assign):
        return isinstance(above, ast.For)
    reads = _reads_of(program, above)
    return bool(reads) and all(_is_read(program, one, of) for one in reads)


def _reads_of(
    program: Program,
    statement: ast.Assign,
) -> list[ast.Name]:
    """Where the one variable is read that a statement sets."""
    target = statement.targets[0]
    if len(statement.targets) > 1 or not isinstance(target, ast.Name):
        return []
    scope = program.module.scope_of(target)
    return list(_reads(program, target.id, scope))


def _given_back(program: Program, load: ast.expr) -> bool:
    """`opt.load_state_dict(state)` of nothing but what `opt.state_dict()` gave."""
    owner = _loader(load)
    given = load.args if isinstance(load, ast.Call) else ()
    if owner is None or len(given) != 1:
        return False
    made = [given[0]]
    if isinstance(given[0], ast.Name):
        found = program.reaching.at(given[0], given[0].id).bindings
        values = [one.value for one in found if one.how == "assign"]
        made = [one for one in values if one is not None]
        if len(made) < len(found):
            return False
    return bool(made) and all(_asked_of(one) == owner for one in made)


def _asked_of(state: ast.expr) -> str | None:
    """`opt` of `opt.state_dict()`"""
    return _owner(state, "state_dict")


def _loader(load: ast.expr) -> str | None:
    """`opt` of `opt.load_state_dict(state)`"""
    return _owner(load, "load_state_dict")


def _owner(call: ast.expr, method: str) -> str | None:
    func = call.func if isinstance(call, ast.Call) else None
    if not isinstance(func, ast.Attribute) or func.attr != method:
        return None
    return dotted_name(func.value)


def entry_by_name(program: Program, state: ast.expr) -> ast.Dict | None:
    """The dict that holds a state under the name that it is given in the same function, and to
    which nothing else is done: `state = opt.state_dict()`, `{"optimizer": state}`.
    """
    scope, above = program.module.scope_of(state), program.module.parents[state]
    target = above.targets[0] if isinstance(above, ast.Assign) else None
    if not isinstance(above, ast.Assign) or len(above.targets) > 1:
        return None
    if not isinstance(target, ast.Name):
        return None
    if len(scope.bindings.get(target.id, ())) != 1:
        return None
    reads = list(_reads(program, target.id, scope))
    holder = program.module.parents[reads[0]] if len(reads) == 1 else None
    is_entry = isinstance(holder, ast.Dict) and reads[0] in holder.values
    near = is_entry and program.module.scope_of(reads[0]) is scope
    return holder if near and isinstance(holder, ast.Dict) else None


def filled_dict(
    program: Program, target: ast.expr
) -> ast.Dict | ast.Call | None:
    """The dict that was made earlier in the same function and gets an entry:
    `state["optimizer"] = ...` of `state = {"epoch": epoch}`, of `dict(epoch=epoch)`.
    """
    if not isinstance(target, ast.Subscript) or not isinstance(
        target.value, ast.Name
    ):
        return None
    scope, name = program.module.scope_of(target), target.value.id
    bindings = program.reaching.at(target.value, name).bindings
    made = bindings[0].value if len(bindings) == 1 else None
    is_own = (
        bool(bindings)
        and program.module.scope_of(bindings[0].statement) is scope
    )
    if not is_own or bindings[0].how != "assign":
        return None
    if isinstance(made, ast.Dict):
        return made
    if not isinstance(made, ast.Call) or made.args:
        return None
    func = made.func if isinstance(made.func, ast.Name) else None
    return made if func is not None and func.id == "dict" else None


def _reads(program: Program, name: str, scope: Scope) -> Iterator[ast.Name]:
    home, module = scope.lookup(name), program.module
    for node in list(module.parents):
        if isinstance(node, ast.Name) and node.id == name:
            is_load = isinstance(node.ctx, ast.Load)
            if is_load and module.scope_of(node).lookup(name) is home:
                yield node


def is_text(call: ast.AST) -> bool:
    """`"{name}: {loss}".format(**locals())`, which takes what it names."""
    func = call.func if isinstance(call, ast.Call) else None
    return isinstance(func, ast.Attribute) and func.attr in (
        "format",
        "format_map",
    )
