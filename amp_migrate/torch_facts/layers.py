"""The modules of `torch.nn`: which operator each one runs.

The operator's row in `ops` says what autocast makes of the layer.
"""

from __future__ import annotations

from functools import cache
from typing import Literal, TypeAlias

from amp_migrate.records import NamedTuple
from amp_migrate.torch_facts import ops

Role: TypeAlias = Literal[
    "layer", "criterion", "composite", "container", "parameters", "wrapper"
]
"""`composite`: several operators in one module; `wrapper`: runs the module that it is given."""


class Layer(NamedTuple):
    """One class of `torch.nn`."""

    name: str
    """Below `torch.nn`."""
    operator: str = ""
    """Name of a row in `ops`."""
    role: Role = "layer"
    constants: tuple[tuple[int, str], ...] = ()
    """Arguments of the constructor that are turned into the dtype of what the layer is given."""
    float_parameters: tuple[tuple[int, str], ...] = ()
    """Arguments of the call that must be float32, as the layer's parameters are."""

    @property
    def op(self) -> ops.Op | None:
        """The row of the operator."""
        return ops.named(self.operator) if self.operator else None


LAYERS: tuple[Layer, ...] = (
    Layer("Conv1d", "nn.functional.conv1d"),
    Layer("ConvTranspose1d", "nn.functional.conv_transpose1d"),
    Layer("LazyConv1d", "nn.functional.conv1d"),
    Layer("LazyConvTranspose1d", "nn.functional.conv_transpose1d"),
    Layer("BatchNorm1d", "nn.functional.batch_norm"),
    Layer("LazyBatchNorm1d", "nn.functional.batch_norm"),
    Layer("InstanceNorm1d", "nn.functional.instance_norm"),
    Layer("LazyInstanceNorm1d", "nn.functional.instance_norm"),
    Layer("Dropout1d", "nn.functional.dropout1d"),
    Layer("MaxPool1d", "nn.functional.max_pool1d"),
    Layer("AvgPool1d", "nn.functional.avg_pool1d"),
    Layer("AdaptiveAvgPool1d", "nn.functional.adaptive_avg_pool1d"),
    Layer("AdaptiveMaxPool1d", "nn.functional.adaptive_max_pool1d"),
    Layer("MaxUnpool1d", "nn.functional.max_unpool1d"),
    Layer(
        "ConstantPad1d",
        "nn.functional.pad",
        constants=((1, "value"),),
    ),
    Layer("ZeroPad1d", "nn.functional.pad"),
    Layer("ReflectionPad1d", "nn.functional.pad"),
    Layer("ReplicationPad1d", "nn.functional.pad"),
    Layer("CircularPad1d", "nn.functional.pad"),
    Layer("LPPool1d", "nn.functional.lp_pool1d"),
    Layer("Conv2d", "nn.functional.conv2d"),
    Layer("ConvTranspose2d", "nn.functional.conv_transpose2d"),
    Layer("LazyConv2d", "nn.functional.conv2d"),
    Layer("LazyConvTranspose2d", "nn.functional.conv_transpose2d"),
    Layer("BatchNorm2d", "nn.functional.batch_norm"),
    Layer("LazyBatchNorm2d", "nn.functional.batch_norm"),
    Layer("InstanceNorm2d", "nn.functional.instance_norm"),
    Layer("LazyInstanceNorm2d", "nn.functional.instance_norm"),
    Layer("Dropout2d", "nn.functional.dropout2d"),
    Layer("MaxPool2d", "nn.functional.max_pool2d"),
    Layer("AvgPool2d", "nn.functional.avg_pool2d"),
    Layer("AdaptiveAvgPool2d", "nn.functional.adaptive_avg_pool2d"),
    Layer("AdaptiveMaxPool2d", "nn.functional.adaptive_max_pool2d"),
    Layer("MaxUnpool2d", "nn.functional.max_unpool2d"),
    Layer(
        "ConstantPad2d",
        "nn.functional.pad",
        constants=((1, "value"),),
    ),
    Layer("ZeroPad2d", "nn.functional.pad"),
    Layer("ReflectionPad2d", "nn.functional.pad"),
    Layer("ReplicationPad2d", "nn.functional.pad"),
    Layer("CircularPad2d", "nn.functional.pad"),
    Layer("LPPool2d", "nn.functional.lp_pool2d"),
    Layer("Conv3d", "nn.functional.conv3d"),
    Layer("ConvTranspose3d", "nn.functional.conv_transpose3d"),
    Layer("LazyConv3d", "nn.functional.conv3d"),
    Layer("LazyConvTranspose3d", "nn.functional.conv_transpose3d"),
    Layer("BatchNorm3d", "nn.functional.batch_norm"),
    Layer("LazyBatchNorm3d", "nn.functional.batch_norm"),
    Layer("InstanceNorm3d", "nn.functional.instance_norm"),
    Layer("LazyInstanceNorm3d", "nn.functional.instance_norm"),
    Layer("Dropout3d", "nn.functional.dropout3d"),
    Layer("MaxPool3d", "nn.functional.max_pool3d"),
    Layer("AvgPool3d", "nn.functional.avg_pool3d"),
    Layer("AdaptiveAvgPool3d", "nn.functional.adaptive_avg_pool3d"),
    Layer("AdaptiveMaxPool3d", "nn.functional.adaptive_max_pool3d"),
    Layer("MaxUnpool3d", "nn.functional.max_unpool3d"),
    Layer(
        "ConstantPad3d",
        "nn.functional.pad",
        constants=((1, "value"),),
    ),
    Layer("ZeroPad3d", "nn.functional.pad"),
    Layer("ReflectionPad3d", "nn.functional.pad"),
    Layer("ReplicationPad3d", "nn.functional.pad"),
    Layer("CircularPad3d", "nn.functional.pad"),
    Layer("LPPool3d", "nn.functional.lp_pool2d"),
    Layer("Linear", "nn.functional.linear"),
    Layer("LazyLinear", "nn.functional.linear"),
    Layer("PReLU", "nn.functional.prelu"),
    Layer("Bilinear", "nn.functional.bilinear"),
    Layer("SyncBatchNorm", "nn.functional.batch_norm"),
    Layer("ReLU", "nn.functional.relu"),
    Layer("ReLU6", "nn.functional.relu6"),
    Layer("LeakyReLU", "nn.functional.leaky_relu"),
    Layer("ELU", "nn.functional.elu"),
    Layer("CELU", "nn.functional.celu"),
    Layer("SELU", "nn.functional.selu"),
    Layer("GELU", "nn.functional.gelu"),
    Layer("SiLU", "nn.functional.silu"),
    Layer("Mish", "nn.functional.mish"),
    Layer("GLU", "nn.functional.glu"),
    Layer("RReLU", "nn.functional.rrelu"),
    Layer("Hardshrink", "nn.functional.hardshrink"),
    Layer("Hardsigmoid", "nn.functional.hardsigmoid"),
    Layer("Hardswish", "nn.functional.hardswish"),
    Layer(
        "Hardtanh",
        "nn.functional.hardtanh",
        constants=((0, "min_val"), (1, "max_val")),
    ),
    Layer("LogSigmoid", "nn.functional.logsigmoid"),
    Layer("Softplus", "nn.functional.softplus"),
    Layer("Softshrink", "nn.functional.softshrink"),
    Layer("Softsign", "nn.functional.softsign"),
    Layer("Tanhshrink", "nn.functional.tanhshrink"),
    Layer(
        "Threshold",
        "nn.functional.threshold",
        constants=((1, "value"),),
    ),
    Layer("Dropout", "nn.functional.dropout"),
    Layer("AlphaDropout", "nn.functional.alpha_dropout"),
    Layer("FeatureAlphaDropout", "nn.functional.feature_alpha_dropout"),
    Layer("LayerNorm", "nn.functional.layer_norm"),
    Layer("RMSNorm", "nn.functional.rms_norm"),
    Layer("GroupNorm", "nn.functional.group_norm"),
    Layer("LocalResponseNorm", "nn.functional.local_response_norm"),
    Layer("Embedding", "nn.functional.embedding"),
    Layer(
        "EmbeddingBag",
        "nn.functional.embedding_bag",
        float_parameters=((2, "per_sample_weights"),),
    ),
    Layer("Upsample", "nn.functional.interpolate"),
    Layer("UpsamplingBilinear2d", "nn.functional.upsample_bilinear"),
    Layer("UpsamplingNearest2d", "nn.functional.upsample_nearest"),
    Layer("PixelShuffle", "nn.functional.pixel_shuffle"),
    Layer("PixelUnshuffle", "nn.functional.pixel_unshuffle"),
    Layer("ChannelShuffle", "nn.functional.channel_shuffle"),
    Layer("Unfold", "nn.functional.unfold"),
    Layer("Fold", "nn.functional.fold"),
    Layer("CosineSimilarity", "nn.functional.cosine_similarity"),
    Layer("PairwiseDistance", "nn.functional.pairwise_distance"),
    Layer("FractionalMaxPool2d", "nn.functional.fractional_max_pool2d"),
    Layer("FractionalMaxPool3d", "nn.functional.fractional_max_pool3d"),
    Layer("Softmin", "nn.functional.softmin"),
    Layer("CrossMapLRN2d", "nn.functional.local_response_norm"),
    Layer("Softmax", "softmax"),
    Layer("Softmax2d", "softmax"),
    Layer("LogSoftmax", "log_softmax"),
    Layer("Sigmoid", "sigmoid"),
    Layer("Tanh", "tanh"),
    Layer("Flatten", "flatten"),
    Layer("Unflatten", "unflatten"),
    Layer("Identity", "contiguous"),
    Layer("LSTM", "lstm"),
    Layer("LSTMCell", "lstm_cell"),
    Layer("GRU", "gru"),
    Layer("GRUCell", "gru_cell"),
    Layer("RNN", "rnn_tanh"),
    Layer("RNNCell", "rnn_tanh_cell"),
    Layer("MultiheadAttention", "nn.functional.multi_head_attention_forward"),
    Layer("BCELoss", "nn.functional.binary_cross_entropy", "criterion"),
    Layer(
        "BCEWithLogitsLoss",
        "nn.functional.binary_cross_entropy_with_logits",
        "criterion",
    ),
    Layer("CrossEntropyLoss", "nn.functional.cross_entropy", "criterion"),
    Layer("NLLLoss", "nn.functional.nll_loss", "criterion"),
    Layer("NLLLoss2d", "nn.functional.nll_loss", "criterion"),
    Layer("GaussianNLLLoss", "nn.functional.gaussian_nll_loss", "criterion"),
    Layer("PoissonNLLLoss", "nn.functional.poisson_nll_loss", "criterion"),
    Layer("KLDivLoss", "nn.functional.kl_div", "criterion"),
    Layer("L1Loss", "nn.functional.l1_loss", "criterion"),
    Layer("MSELoss", "nn.functional.mse_loss", "criterion"),
    Layer("SmoothL1Loss", "nn.functional.smooth_l1_loss", "criterion"),
    Layer("HuberLoss", "nn.functional.huber_loss", "criterion"),
    Layer(
        "HingeEmbeddingLoss", "nn.functional.hinge_embedding_loss", "criterion"
    ),
    Layer(
        "MarginRankingLoss", "nn.functional.margin_ranking_loss", "criterion"
    ),
    Layer("MultiMarginLoss", "nn.functional.multi_margin_loss", "criterion"),
    Layer(
        "MultiLabelMarginLoss",
        "nn.functional.multilabel_margin_loss",
        "criterion",
    ),
    Layer(
        "MultiLabelSoftMarginLoss",
        "nn.functional.multilabel_soft_margin_loss",
        "criterion",
    ),
    Layer("SoftMarginLoss", "nn.functional.soft_margin_loss", "criterion"),
    Layer(
        "CosineEmbeddingLoss",
        "nn.functional.cosine_embedding_loss",
        "criterion",
    ),
    Layer(
        "TripletMarginLoss", "nn.functional.triplet_margin_loss", "criterion"
    ),
    Layer(
        "TripletMarginWithDistanceLoss",
        "nn.functional.triplet_margin_with_distance_loss",
        "criterion",
    ),
    Layer("CTCLoss", "nn.functional.ctc_loss", "criterion"),
    Layer("LinearCrossEntropyLoss", "nn.functional.cross_entropy", "criterion"),
    Layer(
        "AdaptiveLogSoftmaxWithLoss",
        "log_softmax",
        "criterion",
        float_parameters=((0, "input_"),),
    ),
    Layer("Transformer", role="composite"),
    Layer("TransformerDecoder", role="composite"),
    Layer("TransformerDecoderLayer", role="composite"),
    Layer("TransformerEncoder", role="composite"),
    Layer("TransformerEncoderLayer", role="composite"),
    Layer("Sequential", role="container"),
    Layer("ModuleList", role="container"),
    Layer("ModuleDict", role="container"),
    Layer("Container", role="container"),
    Layer("ParameterList", role="parameters"),
    Layer("ParameterDict", role="parameters"),
    Layer("DataParallel", role="wrapper"),
    Layer("parallel.DataParallel", role="wrapper"),
    Layer("parallel.DistributedDataParallel", role="wrapper"),
)

WRAPPERS: tuple[str, ...] = (
    "torch.nn.DataParallel",
    "torch.nn.parallel.DataParallel",
    "torch.nn.parallel.DistributedDataParallel",
    "torch.nn.SyncBatchNorm.convert_sync_batchnorm",
    "torch.compile",
    "torch.jit.script",
)
"""They give back the module that they are given, in other clothes."""

SAY_NO_CLASS: tuple[str | None, ...] = (None, "torch.nn.Module", *WRAPPERS)
"""Names of a module's class, after which it may be of any."""

TRAINED = frozenset(
    f"torch.nn.{name}"
    for name in """
    Linear Bilinear Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d
    Embedding EmbeddingBag RNN LSTM GRU RNNCell LSTMCell GRUCell MultiheadAttention Transformer
    TransformerEncoderLayer TransformerDecoderLayer PReLU
    """.split()
)
"""Layers that have parameters, however they are made."""

CONTAINERS = frozenset(
    f"torch.nn.{row.name}" for row in LAYERS if row.role == "container"
)
"""Modules that hold modules, and have no forward of their own but what these do."""
COMPILES = ("torch.compile", "torch.jit.script")
"""What turns a function, or a module, into code that Python does not run line by line."""
SEQUENCE = "torch.nn.Sequential"
"""Hands on what each layer gives to the next."""
LAYER_LIST = "torch.nn.ModuleList"
"""Layers that a program runs itself, one by one."""
PARAMETERS = ("torch.nn.Parameter", "torch.nn.parameter.Parameter")
PARAMETER_LISTS = ("torch.nn.ParameterList", "torch.nn.ParameterDict")


LOSSES = frozenset(
    row.operator for row in LAYERS if row.role == "criterion" and row.operator
)
"""The operators of the criteria: unless told otherwise, they give one number for a batch."""


@cache
def _by_name() -> dict[str, Layer]:
    return {f"torch.nn.{row.name}": row for row in LAYERS}


def layer(canonical: str | None) -> Layer | None:
    """Find the row of a class such as `torch.nn.Linear`."""
    return None if canonical is None else _by_name().get(canonical)


LAYER_DATA: frozenset[str] = frozenset(
    """
    weight bias num_embeddings embedding_dim in_features out_features
    """.split()
)
"""Parameters and sizes that layers hold as attributes."""
