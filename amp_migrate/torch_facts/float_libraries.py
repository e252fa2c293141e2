"""Libraries whose compiled kernels take float32 (and double) alone, and of which torch's dispatcher
knows nothing: autocast casts nothing for them, and half raises.
"""

from __future__ import annotations

FLOAT_ONLY = (
    "pointnet2_ops.",
    "pytorch3d.loss.",
    "pytorch3d.ops.",
    "torch_spline_conv.",
)
"""Modules whose functions dispatch over `AT_DISPATCH_FLOATING_TYPES`, without Half and BFloat16, or
check for float32 themselves.
"""
OF_OPERATORS = (
    "builtins.",
    "apex.",
    "einops.",
    "functorch.",
    "generative.",
    "kornia.",
    "monai.",
    "timm.",
    "torch.",
    "torch_geometric.",
    "torchaudio.",
    "torchvision.",
    "transformers.",
)
"""Libraries that compute with torch's own operators, of which autocast knows what each of them may
get.
"""
OF_HALF = ("flash_attn.", "xformers.")
"""Libraries whose kernels are written for half precision, and want one dtype of all that they get.
"""
SPECTRA = frozenset(
    f"torchaudio.transforms.{name}"
    for name in "InverseMelScale LFCC MelScale MelSpectrogram MFCC".split()
)
"""Layers that multiply spectra of power, of which autocast would make half: seven digits of the
quiet bands lie below what the loud ones leave there.
"""
