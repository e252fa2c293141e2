"""The fused cells that recurrent layers use on a GPU, from operators that autograd knows.

Source: aten/src/ATen/native/cuda/RNN.cu: they compute in float32 and round their results. A network
calls them for each time step, so each is one operator to the simulated GPU, with a graph of its own
on the host.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from amp_migrate.runtime.simulated_gpu.memory import on_device, on_host

Tensor = torch.Tensor


def _wide(value: Tensor) -> Tensor:
    return value if value.dtype is torch.float64 else value.float()


def _added(one: Tensor, bias: Tensor | None) -> Tensor:
    return _wide(one) if bias is None else _wide(one) + _wide(bias)


def lstm_cell(
    inputs: Tensor,
    hidden: Tensor,
    cell: Tensor,
    input_bias: Any = None,
    hidden_bias: Any = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The new hidden state, the new cell state, and the gates."""
    gates = _added(inputs, input_bias) + _added(hidden, hidden_bias)
    enter, forget, new, leave = gates.chunk(4, 1)
    state = forget.sigmoid() * _wide(cell) + enter.sigmoid() * new.tanh()
    output = leave.sigmoid() * state.tanh()
    return (
        output.to(inputs.dtype),
        state.to(cell.dtype),
        gates.detach().to(inputs.dtype),
    )


def gru_cell(
    inputs: Tensor,
    hidden: Tensor,
    state: Tensor,
    input_bias: Any = None,
    hidden_bias: Any = None,
) -> tuple[Tensor, Tensor]:
    """The new state, and the gates."""
    from_input, from_hidden = (
        _added(inputs, input_bias),
        _added(hidden, hidden_bias),
    )
    reset_input, update_input, new_input = from_input.chunk(3, 1)
    reset_hidden, update_hidden, new_hidden = from_hidden.chunk(3, 1)
    reset = (reset_input + reset_hidden).sigmoid()
    update = (update_input + update_hidden).sigmoid()
    new = (new_input + reset * new_hidden).tanh()
    output = new + update * (_wide(state) - new)
    return output.to(state.dtype), torch.cat(
        [reset, update, new], 1
    ).detach().to(state.dtype)


class _OnHost(torch.autograd.Function):
    """A cell as one node of the program's graph."""

    @staticmethod
    def forward(
        ctx: Any, cell: Callable[..., Any], *tensors: Tensor | None
    ) -> Any:
        needed = ctx.needs_input_grad[1:]
        hosts = [
            None if one is None else on_host(one).detach().requires_grad_(need)
            for one, need in zip(tensors, needed, strict=True)
        ]
        with torch.enable_grad():
            results = cell(*hosts)
        ctx.cell, ctx.hosts, ctx.results = cell, hosts, results
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)
        told = tuple(on_device(one.detach()) for one in results)
        ctx.mark_non_differentiable(told[-1])
        return told

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        needed = ctx.needs_input_grad[1:]
        twice = torch.is_grad_enabled()  # to be differentiated again
        sources = list(map(_itself, ctx.saved_tensors)) if twice else ctx.hosts
        results = ctx.cell(*sources) if twice else ctx.results
        pairs = [
            (one, gradient if twice else on_host(gradient))
            for one, gradient in zip(results[:-1], gradients, strict=False)
            if gradient is not None
        ]
        found = iter(
            torch.autograd.grad(
                [one for one, _ in pairs],
                [
                    one
                    for one, need in zip(sources, needed, strict=True)
                    if need
                ],
                [gradient for _, gradient in pairs],
                create_graph=twice,
                retain_graph=True,
            )
            if pairs
            else [None] * sum(needed)
        )
        given = [next(found) if need else None for need in needed]
        return None, *(
            one if twice or one is None else on_device(one.contiguous())
            for one in given
        )


def _itself(value: Tensor | None) -> Tensor | None:
    """A place in the graph of its own: one operand may have been computed from another."""
    return None if value is None else value.clone()


def _one_node(cell: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(cell)
    def kernel(*tensors: Any) -> Any:
        with torch._C.DisableTorchFunction():
            return _OnHost.apply(cell, *tensors)

    return kernel


CELLS = {
    "_thnn_fused_lstm_cell": _one_node(lstm_cell),
    "_thnn_fused_gru_cell": _one_node(gru_cell),
}
