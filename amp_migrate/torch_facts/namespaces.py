"""Under which dotted names torch's classes and functions are known, and what star imports bind."""

from __future__ import annotations

from amp_migrate.torch_facts import amp_api
from amp_migrate.torch_facts.layers import LAYERS

PUBLIC = (
    ("torch.nn.modules.loss.", "torch.nn."),
    ("torch.nn.utils.clip_grad.", "torch.nn.utils."),
    ("torch.nn.parallel.distributed.", "torch.nn.parallel."),
    ("torch.optim.adam.", "torch.optim."),
    ("torch.optim.adamw.", "torch.optim."),
    ("torch.optim.sgd.", "torch.optim."),
    ("torch.optim.optimizer.", "torch.optim."),
    ("torch.amp.autocast_mode.", "torch.amp."),
    ("torch.amp.grad_scaler.", "torch.amp."),
    ("torch.cuda.amp.autocast_mode.", "torch.cuda.amp."),
    ("torch.cuda.amp.grad_scaler.", "torch.cuda.amp."),
)
"""Modules in which torch defines what it shows elsewhere, and where it shows it."""

STARS = {
    "torch": frozenset(
        "nn optim autograd cuda device no_grad autocast tensor sigmoid".split()
    ),
    "torch.nn": frozenset(row.name for row in LAYERS if "." not in row.name)
    | frozenset("Module Parameter functional init utils".split()),
    "torch.optim": frozenset(
        """
        Adam AdamW SGD RMSprop Adagrad Adadelta Adamax NAdam RAdam LBFGS ASGD Rprop
        """.split()
    ),
    "torch.optim.lr_scheduler": frozenset(
        """
        StepLR MultiStepLR ExponentialLR CosineAnnealingLR ReduceLROnPlateau LambdaLR
        """.split()
    ),
    "torch.cuda.amp": frozenset(amp_api.ROLES),
    "torch.amp": frozenset(amp_api.ROLES),
}
"""What `from <module> import *` binds, as far as training code uses it."""

USUAL = {
    "torch": "torch",
    "nn": "torch.nn",
    "optim": "torch.optim",
    "F": "torch.nn.functional",
}
"""Names that a project's own `from utils import *` usually brings along."""
