"""Where a new import goes, and when none is needed."""

from __future__ import annotations

import pytest

from tests.rewrite.writer.spots import Case, applied, before, bring, check, wrap

TORCH = [bring("torch")]
CASES: list[Case] = [
    ("an empty file", "", TORCH, "import torch"),
    ("no imports", "x = 1\n", TORCH, "import torch\n\nx = 1\n"),
    ("no imports, blank lines", "\n\nx = 1\n", TORCH, "\n\nimport torch\n\nx = 1\n"),
    ("a shebang", "#!/bin/python\nx = 1\n", TORCH, "#!/bin/python\nimport torch\n\nx = 1\n"),
    ("a licence", "# (c) me\n\nx = 1\n", TORCH, "# (c) me\n\nimport torch\n\nx = 1\n"),
    ("a comment of the first statement", "# one\nx = 1\n", TORCH, "import torch\n\n# one\nx = 1\n"),
    ("a docstring", '"""Doc."""\nx = 1\n', TORCH, '"""Doc."""\n\nimport torch\n\nx = 1\n'),
    ("a docstring alone", '"""Doc."""\n', TORCH, '"""Doc."""\n\nimport torch\n'),
    (
        "a docstring and blank lines",
        '"""Doc."""\n\n\nx = 1\n',
        TORCH,
        '"""Doc."""\n\nimport torch\n\n\nx = 1\n',
    ),
    (
        "from __future__",
        '"""Doc."""\n\nfrom __future__ import annotations\n\nx = 1\n',
        TORCH,
        '"""Doc."""\n\nfrom __future__ import annotations\n\nimport torch\n\nx = 1\n',
    ),
    (
        "from __future__ and imports",
        "from __future__ import annotations\n\nimport os\nx = 1\n",
        TORCH,
        "from __future__ import annotations\n\nimport os\nimport torch\nx = 1\n",
    ),
    (
        "other imports",
        "import os\nimport sys\n\nx = 1\n",
        TORCH,
        "import os\nimport sys\nimport torch\n\nx = 1\n",
    ),
    (
        "other imports in groups",
        "import os\n\nimport numpy\n\nx = 1\n",
        TORCH,
        "import os\n\nimport numpy\nimport torch\n\nx = 1\n",
    ),
    (
        "code between imports",
        "import os\nx = 1\nimport sys\n",
        TORCH,
        "import os\nimport torch\nx = 1\nimport sys\n",
    ),
    (
        "the same package, from",
        "import os\nfrom torch import nn\n",
        TORCH,
        "import os\nimport torch\nfrom torch import nn\n",
    ),
    (
        "the same package in a group with a comment",
        "import os\n\n# torch\nfrom torch.utils.data import D\nfrom torch import nn\nimport me\n",
        TORCH,
        (
            "import os\n\n# torch\nimport torch\nfrom torch.utils.data import D\nfrom torch import "
            "nn\nimport me\n"
        ),
    ),
    (
        "the same package as another name",
        "import torch.nn as nn\n",
        TORCH,
        "import torch\nimport torch.nn as nn\n",
    ),
    ("torch as th binds th", "import torch as th\n", TORCH, "import torch\nimport torch as th\n"),
    (
        "a package with a name that begins so",
        "import torchvision\n",
        TORCH,
        "import torchvision\nimport torch\n",
    ),
    (
        "a relative import is no package",
        "from .torch import x\n",
        TORCH,
        "import torch\n\nfrom .torch import x\n",
    ),
    (
        "before the project's own",
        "import os\n\nfrom . import x\n",
        TORCH,
        "import os\n\nimport torch\n\nfrom . import x\n",
    ),
    (
        "between, where all are one block",
        "import os\nfrom .a import x\n",
        TORCH,
        "import os\nimport torch\nfrom .a import x\n",
    ),
    (
        "imports on one line",
        "import os; from torch import nn\n",
        TORCH,
        "import torch\nimport os; from torch import nn\n",
    ),
    (
        "only under try",
        "try:\n    import os\nexcept E:\n    pass\n",
        TORCH,
        "import torch\n\ntry:\n    import os\nexcept E:\n    pass\n",
    ),
    (
        "only under if",
        "# c\n\nif x:\n    import torch\n",
        TORCH,
        "# c\n\nimport torch\n\nif x:\n    import torch\n",
    ),
    (
        "only in a function",
        "def f():\n    import torch\n",
        TORCH,
        "import torch\n\ndef f():\n    import torch\n",
    ),
    (
        "in a handler only",
        "import os\ntry:\n    x\nexcept E:\n    import torch\n",
        TORCH,
        "import os\nimport torch\ntry:\n    x\nexcept E:\n    import torch\n",
    ),
    ("CRLF", "import os\r\nx\r\n", TORCH, "import os\r\nimport torch\r\nx\r\n"),
    ("no line end", "import os", TORCH, "import os\nimport torch"),
    ("there", "import torch\n", TORCH, "import torch\n"),
    ("there, as itself", "import torch as torch\n", TORCH, "import torch as torch\n"),
    ("there, in a list", "import os, torch, sys\n", TORCH, "import os, torch, sys\n"),
    ("there, behind a semicolon", "import os; import torch\n", TORCH, "import os; import torch\n"),
    ("there, through a submodule", "import torch.nn\n", TORCH, "import torch.nn\n"),
    ("there, below code", "x = 1\nimport torch\n", TORCH, "x = 1\nimport torch\n"),
    (
        "there, in a try around everything",
        "try:\n    import torch\nfinally:\n    x\n",
        TORCH,
        "try:\n    import torch\nfinally:\n    x\n",
    ),
    ("the same edit twice", "import os\n", [*TORCH, *TORCH], "import os\nimport torch\n"),
    (
        "a submodule is not there by its package",
        "import torch\n",
        [bring("torch.cuda")],
        "import torch.cuda\nimport torch\n",
    ),
    (
        "from, there",
        "from torch import nn, amp\n",
        [bring("torch", "amp")],
        "from torch import nn, amp\n",
    ),
    (
        "from, there in brackets",
        "from torch import (\n    amp,\n)\n",
        [bring("torch", "amp")],
        "from torch import (\n    amp,\n)\n",
    ),
    (
        "from, as another name",
        "from torch import amp as a\n",
        [bring("torch", "amp")],
        "from torch import amp as a\nfrom torch import amp\n",
    ),
    (
        "from, another name as it",
        "from torch import x as amp\n",
        [bring("torch", "amp")],
        "from torch import x as amp\nfrom torch import amp\n",
    ),
    (
        "from, after its package",
        "import torch\nimport os\n",
        [bring("torch", "amp")],
        "import torch\nfrom torch import amp\nimport os\n",
    ),
    (
        "from, without its package",
        "import os\n",
        [bring("torch", "amp")],
        "import os\nfrom torch import amp\n",
    ),
    ("two", "import os\n", [bring("a"), bring("b")], "import os\nimport a\nimport b\n"),
    (
        "beside a wrap of the first statement",
        "# c\nx\n",
        [wrap("x"), *TORCH],
        "import torch\n\nwith amp:\n    # c\n    x\n",
    ),
    (
        "beside an insert",
        "import os\nx\n",
        [before("x", "y"), *TORCH],
        "import os\nimport torch\ny\nx\n",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_import(case: Case) -> None:
    check(case)


ALONE = [case for case in CASES if all(make in TORCH for make in case[2])]


@pytest.mark.parametrize("text", [case[3] for case in ALONE], ids=[case[0] for case in ALONE])
def test_a_second_time_changes_nothing(text: str) -> None:
    assert applied(text, *TORCH) == text
