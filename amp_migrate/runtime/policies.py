"""CUDA's autocast lists: what becomes of the operands of each operator under `torch.autocast("cuda")`.

Source: `aten/src/ATen/autocast_mode.h` and `autocast_mode.cpp` of torch 2.13. Which operators have a CUDA rule at all
is asked of the running torch (the registrations of the `AutocastCUDA` dispatch key); what stands here is only the
kind of rule. An operator that has a rule but no entry is computed in float32, by far the longest list.
"""

from __future__ import annotations

from typing import Literal

Policy = Literal["lower", "float32", "float32-dtype", "promote", "banned"]
"""`lower`: cast to the region's dtype. `float32-dtype`: as float32, unless the call itself names a dtype."""

LOWER = frozenset(
    """
    _convolution conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d convolution
    cudnn_convolution cudnn_convolution_transpose prelu addmm addmv addr matmul einsum mm mv linalg_vecdot linear addbmm
    baddbmm bmm chain_matmul linalg_multi_dot _thnn_fused_lstm_cell _thnn_fused_gru_cell lstm_cell gru_cell
    rnn_tanh_cell rnn_relu_cell scaled_dot_product_attention _scaled_dot_product_flash_attention
    """.split()
)
FLOAT32_DTYPE = frozenset("prod softmax log_softmax cumprod cumsum linalg_vector_norm linalg_matrix_norm sum".split())
PROMOTE = frozenset(
    "addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add".split()
)
BANNED = frozenset(["binary_cross_entropy"])

RECURRENT = (
    "lstm.input",
    "lstm.data",
    "gru.input",
    "gru.data",
    "rnn_tanh.input",
    "rnn_tanh.data",
    "rnn_relu.input",
    "rnn_relu.data",
)
"""On CUDA these reach cuDNN, whose operands autocast lowers (`_cudnn_rnn`); on the CPU they fall apart into other
operators."""

BANNED_MESSAGE = (
    "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast. "
    "Many models use a sigmoid layer right before the binary cross entropy layer. "
    "In this case, combine the two layers using "
    "torch.nn.functional.binary_cross_entropy_with_logits or torch.nn.BCEWithLogitsLoss."
)


def policy_of(operator: str) -> Policy:
    """The rule of an operator such as `softmax.int` that CUDA's autocast knows."""
    name = operator.partition(".")[0]
    if name in LOWER:
        return "lower"
    if name in FLOAT32_DTYPE:
        return "float32-dtype"
    if name in PROMOTE:
        return "promote"
    return "banned" if name in BANNED else "float32"
