"""Loss functions, all float32 under CUDA autocast except those that raise."""

from amp_migrate.torch_facts.ops.row import NONE, Op, Trait

ROWS: tuple[Op, ...] = (
    Op(
        "nn.functional.binary_cross_entropy",
        "F.binary_cross_entropy",
        policy="banned",
        tensors=(0, 1),
    ),
    Op(
        "nn.functional.binary_cross_entropy_with_logits",
        "F.binary_cross_entropy_with_logits",
        policy="fp32",
        tensors=(0, 1),
    ),
    Op(
        "nn.functional.cross_entropy", "F.cross_entropy", policy="fp32", aten=""
    ),
    Op(
        "nn.functional.nll_loss",
        "F.nll_loss",
        policy="fp32",
        aten="nll_loss nll_loss2d",
    ),
    Op(
        "nn.functional.gaussian_nll_loss",
        "F.gaussian_nll_loss",
        policy="fp32",
        tensors=(0, 1, 2),
        aten="",
    ),
    Op(
        "nn.functional.poisson_nll_loss",
        "F.poisson_nll_loss",
        policy="fp32",
        tensors=(0, 1),
    ),
    Op("nn.functional.kl_div", "F.kl_div", policy="fp32", tensors=(0, 1)),
    Op("nn.functional.l1_loss", "F.l1_loss", policy="fp32", tensors=(0, 1)),
    Op(
        "nn.functional.mse_loss",
        "F.mse_loss",
        policy="fp32",
        tensors=(0, 1),
        traits=Trait.SQUARES,
    ),
    Op(
        "nn.functional.smooth_l1_loss",
        "F.smooth_l1_loss",
        policy="fp32",
        tensors=(0, 1),
    ),
    Op(
        "nn.functional.huber_loss",
        "F.huber_loss",
        policy="fp32",
        tensors=(0, 1),
    ),
    Op(
        "nn.functional.hinge_embedding_loss",
        "F.hinge_embedding_loss",
        policy="fp32",
        tensors=(0, 1),
    ),
    Op(
        "nn.functional.margin_ranking_loss",
        "F.margin_ranking_loss",
        policy="fp32",
        tensors=(0, 1, 2),
    ),
    Op("nn.functional.multi_margin_loss", "F.multi_margin_loss", policy="fp32"),
    Op(
        "nn.functional.multilabel_margin_loss",
        "F.multilabel_margin_loss",
        policy="fp32",
    ),
    Op(
        "nn.functional.multilabel_soft_margin_loss",
        "F.multilabel_soft_margin_loss",
        policy="fp32",
        tensors=(0, 1),
        aten="",
    ),
    Op(
        "nn.functional.soft_margin_loss",
        "F.soft_margin_loss",
        policy="fp32",
        tensors=(0, 1),
    ),
    Op(
        "nn.functional.cosine_embedding_loss",
        "F.cosine_embedding_loss",
        policy="fp32",
        tensors=(0, 1, 2),
    ),
    Op(
        "nn.functional.triplet_margin_loss",
        "F.triplet_margin_loss",
        policy="fp32",
        tensors=(0, 1, 2),
    ),
    Op(
        "nn.functional.triplet_margin_with_distance_loss",
        "F.triplet_margin_with_distance_loss",
        policy="fp32",
        tensors=(0, 1, 2),
        aten="",
    ),
    Op("nn.functional.ctc_loss", "F.ctc_loss", kernels=NONE),
)
