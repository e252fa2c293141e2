"""Normalization layers, pooling, padding and resampling."""

from amp_migrate.torch_facts.ops.row import Op

_STATISTICS = (
    (1, "running_mean"),
    (2, "running_var"),
    (3, "weight"),
    (4, "bias"),
)

ROWS: tuple[Op, ...] = (
    Op(
        "nn.functional.layer_norm",
        "F.layer_norm t.layer_norm",
        policy="fp32",
        tensors=(0,),
        aten="layer_norm native_layer_norm",
    ),
    Op(
        "nn.functional.rms_norm",
        "F.rms_norm t.rms_norm",
        policy="fp32",
        tensors=(0,),
    ),
    Op(
        "nn.functional.group_norm",
        "F.group_norm t.group_norm",
        policy="fp32",
        tensors=(0,),
    ),
    Op(
        "nn.functional.batch_norm",
        "F.batch_norm",
        tensors=(0,),
        float_parameters=_STATISTICS,
    ),
    Op(
        "nn.functional.instance_norm",
        "F.instance_norm",
        tensors=(0,),
        float_parameters=_STATISTICS,
    ),
    Op(
        "nn.functional.local_response_norm",
        "F.local_response_norm",
        policy="fp32",
        aten="",
    ),
    Op("nn.functional.adaptive_avg_pool1d", "F.adaptive_avg_pool1d"),
    Op("nn.functional.adaptive_avg_pool2d", "F.adaptive_avg_pool2d"),
    Op("nn.functional.adaptive_avg_pool3d", "F.adaptive_avg_pool3d"),
    Op("nn.functional.adaptive_max_pool1d", "F.adaptive_max_pool1d"),
    Op("nn.functional.adaptive_max_pool2d", "F.adaptive_max_pool2d"),
    Op("nn.functional.adaptive_max_pool3d", "F.adaptive_max_pool3d"),
    Op("nn.functional.avg_pool1d", "F.avg_pool1d"),
    Op("nn.functional.avg_pool2d", "F.avg_pool2d"),
    Op("nn.functional.avg_pool3d", "F.avg_pool3d"),
    Op("nn.functional.max_pool1d", "F.max_pool1d"),
    Op("nn.functional.max_pool2d", "F.max_pool2d"),
    Op("nn.functional.max_pool3d", "F.max_pool3d"),
    Op("nn.functional.max_unpool1d", "F.max_unpool1d"),
    Op("nn.functional.max_unpool2d", "F.max_unpool2d"),
    Op("nn.functional.max_unpool3d", "F.max_unpool3d"),
    Op("nn.functional.lp_pool1d", "F.lp_pool1d", policy="fp32", aten=""),
    Op("nn.functional.lp_pool2d", "F.lp_pool2d", policy="fp32", aten=""),
    Op("nn.functional.fractional_max_pool2d", "F.fractional_max_pool2d"),
    Op("nn.functional.fractional_max_pool3d", "F.fractional_max_pool3d"),
    Op("nn.functional.pad", "F.pad", constants=((3, "value"),)),
    Op("constant_pad_nd", "t.constant_pad_nd", constants=((2, "value"),)),
    Op("nn.functional.interpolate", "F.interpolate", policy="fp32", aten=""),
    Op("nn.functional.upsample", "F.upsample", policy="fp32", aten=""),
    Op(
        "nn.functional.upsample_nearest",
        "F.upsample_nearest",
        policy="fp32",
        aten="upsample_nearest1d upsample_nearest2d upsample_nearest3d "
        "_upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d",
    ),
    Op(
        "nn.functional.upsample_bilinear",
        "F.upsample_bilinear",
        policy="fp32",
        aten="upsample_linear1d upsample_bilinear2d upsample_trilinear3d "
        "upsample_bicubic2d _upsample_bilinear2d_aa _upsample_bicubic2d_aa",
    ),
    Op(
        "nn.functional.grid_sample",
        "F.grid_sample",
        policy="promote",
        tensors=(0, 1),
        aten="grid_sampler",
    ),
    Op("nn.functional.affine_grid", "F.affine_grid", policy="lower", aten=""),
    Op("nn.functional.pixel_shuffle", "F.pixel_shuffle"),
    Op("nn.functional.pixel_unshuffle", "F.pixel_unshuffle"),
    Op("nn.functional.channel_shuffle", "F.channel_shuffle"),
    Op("nn.functional.unfold", "F.unfold"),
    Op("nn.functional.fold", "F.fold"),
    Op("nn.functional.embedding", "F.embedding", tensors=(1,)),
    Op(
        "nn.functional.embedding_bag",
        "F.embedding_bag",
        tensors=(1,),
        float_parameters=((8, "per_sample_weights"),),
    ),
    Op("nn.functional.one_hot", "F.one_hot", result="int"),
)
