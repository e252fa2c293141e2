"""Methods that are called on gradients, by what they mean while these carry a scale."""

from __future__ import annotations

AUTOGRAD_FUNCTIONS = (
    "torch.autograd.Function",
    "torch.autograd.function.Function",
)
"""The base of functions whose gradient a person wrote."""
GRADIENTS = ("grad", "_grad")
"""Attributes of a parameter that hold its gradient."""
SCALE_FREE = frozenset(
    """
    zero_ detach_ requires_grad_ mul_ div_ shape device dtype is_sparse size numel
    """.split()
)
"""What is asked of a gradient, or done to it, whatever its scale."""
WRITES = frozenset(
    """
    add_ sub_ copy_ fill_ set_ addcmul_ addcdiv_ normal_ uniform_ nan_to_num_
    """.split()
)
"""Methods that give a gradient other values."""
CARRIES_SCALE = frozenset(
    """
    mul_ div_ zero_ detach_ requires_grad_ copy_ set_ new new_zeros is_cuda is_sparse
    """.split()
)
"""Methods by which a gradient stays scaled, or goes whole."""
SHAPES = frozenset(
    """
    shape size dtype device dim numel is_contiguous data_ptr layout is_sparse
    """.split()
)
"""Parts of a gradient that hold no values."""
ZEROS = frozenset("zeros zeros_like new_zeros".split())
"""Functions and methods that make zeros."""
ZEROES = frozenset("zero_ _foreach_zero_".split())
"""Those that turn what they are given into zeros."""
FILLS = frozenset("fill_ mul_".split())
"""Methods that do where they are given 0."""
KEEPS_ZEROS = frozenset(
    """
    Variable Parameter to cuda cpu clone detach float type type_as contiguous view reshape
    expand_as requires_grad_
    """.split()
)
"""What gives zeros of zeros."""
BOUNDING = frozenset(
    """
    clamp clip clamp_ clip_ clamp_min_ clamp_max_ nan_to_num
    """.split()
)
"""Functions and methods that bound what they are given."""
SAME_VALUES = frozenset(
    """
    data detach view reshape flatten float double half bfloat16 to clone cpu ravel contiguous
    """.split()
)
"""What passes the values of a gradient on."""
JOINS = frozenset(
    """
    cat concat concatenate stack split chunk unbind narrow _flatten_dense_tensors
    _unflatten_dense_tensors
    """.split()
)
"""Functions and methods that make one tensor of several, or several of one."""
MULTIPLES = frozenset("neg mul div multiply divide true_divide".split())
"""Methods that give a multiple of a gradient."""
SIZES = frozenset(
    """
    norm abs max min amax amin mean std var sum square pow item tolist numpy clamp clamp_
    clip clip_ median quantile vector_norm matrix_norm _foreach_norm histc argmax maximum
    minimum where allclose
    """.split()
)
"""What depends on how large a gradient is."""
NUMBERS_OF = frozenset(
    "norm abs max min amax amin mean std var sum square item tolist".split()
)
"""Methods by which a gradient is measured."""
TO_NUMBERS = frozenset(
    "float int norm item tolist vector_norm isnan isinf".split()
)
"""What makes numbers of a gradient that are looked at, and no more."""
NO_MULTIPLES = frozenset(
    "sign sign_ sgn hardtanh hardtanh_ tanh tanh_ normalize norm renorm sigmoid".split()
)
"""Functions and methods whose result is no multiple of what they are given."""
ASKS_FINITE = ("isnan", "isinf", "isfinite")
"""Questions whether a value is a finite number."""
LINEAR = frozenset(
    """
    norm abs clone detach float view view_as reshape flatten squeeze unsqueeze sum mean amax amin
    """.split()
)
"""Methods that multiply their result by the factor that their tensor carries."""
NO_GRAD = ("torch.no_grad", "torch.inference_mode", "torch.autograd.no_grad")
"""Contexts and decorators under which nothing is recorded for backward."""
UNRECORDED = ("no_grad", "inference_mode")
"""Those, by their last names, whatever they are imported from."""
ENABLES_GRAD = "torch.enable_grad"
CUTS = frozenset(
    """
    detach item numpy tolist argmax argmin multinomial argsort
    """.split()
)
"""Methods whose result has no gradient."""
BEGINS_GRAPH = (
    "torch.tensor",
    "torch.autograd.Variable",
    "torch.nn.Parameter",
)
"""What makes a leaf of a tensor, whatever that was computed from."""
