"""Which files run on an older torch, told from their own calls."""

from amp_migrate.model.files.linking import LinkedProgram
from amp_migrate.model.files.old_calls import removed_in

OLD = "import torch\n\nbatches = iter(loader)\nx, y = batches.next()\n"
PLAIN = "import torch\n\n\ndef train(batches):\n    return next(batches)\n"


def test_calls_of_one_file_tell_nothing_about_the_others_of_its_program() -> None:
    texts = {"/nowhere/old.py": OLD, "/nowhere/plain.py": PLAIN}
    for paths in (list(texts), list(reversed(texts))):
        program = LinkedProgram({path: texts[path] for path in paths}, neighbours=False)
        told = {file.path: removed_in(file) is not None for file in program.module.files}
        assert told == {"/nowhere/old.py": True, "/nowhere/plain.py": False}
