"""The fused cells that recurrent layers use on a GPU, from operators that autograd knows.

Source: aten/src/ATen/native/cuda/RNN.cu: they compute in float32 and round their results.
"""

from __future__ import annotations

from typing import Any

import torch

Tensor = torch.Tensor


def _added(one: Tensor, bias: Tensor | None) -> Tensor:
    return one.float() if bias is None else one.float() + bias.float()


def lstm_cell(
    inputs: Tensor, hidden: Tensor, cell: Tensor, input_bias: Any = None, hidden_bias: Any = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The new hidden state, the new cell state, and the gates."""
    gates = _added(inputs, input_bias) + _added(hidden, hidden_bias)
    enter, forget, new, leave = gates.chunk(4, 1)
    state = forget.sigmoid() * cell.float() + enter.sigmoid() * new.tanh()
    output = leave.sigmoid() * state.tanh()
    return output.to(inputs.dtype), state.to(cell.dtype), gates.detach().to(inputs.dtype)


def gru_cell(
    inputs: Tensor, hidden: Tensor, state: Tensor, input_bias: Any = None, hidden_bias: Any = None
) -> tuple[Tensor, Tensor]:
    """The new state, and the gates."""
    from_input, from_hidden = _added(inputs, input_bias), _added(hidden, hidden_bias)
    reset_input, update_input, new_input = from_input.chunk(3, 1)
    reset_hidden, update_hidden, new_hidden = from_hidden.chunk(3, 1)
    reset = (reset_input + reset_hidden).sigmoid()
    update = (update_input + update_hidden).sigmoid()
    new = (new_input + reset * new_hidden).tanh()
    output = new + update * (state.float() - new)
    return output.to(state.dtype), torch.cat([reset, update, new], 1).detach().to(state.dtype)


CELLS = {"_thnn_fused_lstm_cell": lstm_cell, "_thnn_fused_gru_cell": gru_cell}
