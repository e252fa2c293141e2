"""The fused optimizers, by the ones of torch that they speed up."""

from __future__ import annotations

from typing import Any

import torch


class FusedAdam(torch.optim.AdamW):
    """Decoupled weight decay, and none unless it is asked for."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        weight_decay: float = 0.0,
        adam_w_mode: bool = True,
        **options: Any,
    ) -> None:
        if not adam_w_mode:
            raise NotImplementedError("torch.optim.Adam couples the weight decay")
        super().__init__(params, lr=lr, weight_decay=weight_decay, **options)
