"""The prefilter may raise a false alarm, but never miss a loop."""

from __future__ import annotations

import pytest

from amp_migrate.project.prefilter import hides_words, is_notebook, may_train


@pytest.mark.parametrize(
    "source",
    [
        b"loss.backward()",
        b"(a + b).backward(retain_graph=True)",
        b"loss . backward ()",
        b"(loss\n .backward())",
        b"loss.\\\r\n  backward\\\n()",
        b"torch.autograd.backward([a, b])",
        b"from torch.autograd import backward\nbackward(loss)",
        b"from torch.autograd import grad, backward as b",
    ],
)
def test_passes(source: bytes) -> None:
    assert may_train(source)


@pytest.mark.parametrize(
    "source",
    [
        b"",
        b"import torch",
        b"def backward(ctx, grad):\n    return grad",
        b"# goes backward (in time)",
        b"go.backwards()",
        b"from a import b  # kept for backward compatibility",
        b"import torch\nbackward = 1",
    ],
)
def test_skips(source: bytes) -> None:
    assert not may_train(source)


def test_notebooks() -> None:
    assert is_notebook("a/b.ipynb")
    assert not is_notebook("a/ipynb.py")
    assert may_train(b'"source": "import a\\nfrom torch.autograd import backward"', notebook=True)
    assert not may_train(b'{"cells": []}', notebook=True)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_two_bytes_a_character_hide_words(encoding: str) -> None:
    assert hides_words("import torch\nloss.backward()\n".encode(encoding))


@pytest.mark.parametrize("source", [b"", b"x", b"import torch", "\ufeffx = 'ä'\n".encode()])
def test_plain_text_hides_none(source: bytes) -> None:
    assert not hides_words(source)


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"1", b'{"cells": [1, 2]}', b'{"cells": 3}', b"\xff\xfe{\0"]
)
def test_what_is_no_notebook_hides_words(data: bytes) -> None:
    assert hides_words(data, notebook=True)


@pytest.mark.parametrize("data", [b'{"cells": []}', b'{"cells": [{}]}', b'{"worksheets": [1]}'])
def test_a_notebook_hides_none(data: bytes) -> None:
    assert not hides_words(data, notebook=True)
