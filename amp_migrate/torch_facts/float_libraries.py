"""Libraries whose compiled kernels take float32 (and double) alone, and of which torch's dispatcher
knows nothing: autocast casts nothing for them, and half raises.
"""

from __future__ import annotations

FLOAT_ONLY = (
    "pytorch3d.loss.",
    "pytorch3d.ops.",
    "torch_spline_conv.",
)
"""Modules whose functions dispatch over `AT_DISPATCH_FLOATING_TYPES`, without Half and BFloat16."""
