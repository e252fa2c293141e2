"""Groups of operators, by the names of their rows, that several analyses ask for."""

from __future__ import annotations

BOUNDS_BELOW = ("clamp", "clamp_min", "maximum")
BOUNDS_ABOVE = ("clamp", "clamp_max", "minimum")
BOUNDS = ("clamp", "clamp_min", "clamp_max", "maximum", "minimum")
ROUNDS = ("round", "floor", "ceil", "trunc")
"""Whole numbers that are no further than 1 from what they are made of."""
GUARDS = (*BOUNDS, "add")
"""What keeps a value from the edge where a logarithm or a division is infinite."""
LENGTHS = ("norm", "linalg.norm", "linalg.vector_norm")
"""Roots of sums of squares."""
SQUARES = ("pow", "square")
"""Squares, where the exponent is 2."""
MIXES = ("add", "sub", "mul")
"""Arithmetic in which one large operand makes the result as large."""
FILLED = {
    "full": (1, "fill_value"),
    "full_like": (1, "fill_value"),
    "new_full": (2, "fill_value"),
    "new_tensor": (1, "data"),
    "tensor": (0, "data"),
}
"""Tensors that hold given numbers, and the argument that gives them."""
SOLVERS = (
    "cholesky_solve",
    "linalg.lu_solve",
    "linalg.solve",
    "linalg.solve_triangular",
    "lu_solve",
)
"""What gives as much as an inverse comes to: nothing bounds it."""
ADDS_AT = ("index_add", "scatter_add")
"""What adds up the values of one place."""
SUMS_IN_HALF = {
    "nansum": "",
    "nn.functional.avg_pool1d": "divisor_override",
    "nn.functional.avg_pool2d": "divisor_override",
    "nn.functional.avg_pool3d": "divisor_override",
}
"""Sums that autocast leaves in half, those of an average only where that argument is given."""
COVARIANCES = ("cov", "corrcoef")
"""Sums of products over all observations, which are divided by their number at last."""
AVERAGES = tuple(
    f"nn.functional.{kind}avg_pool{d}d"
    for kind in ("", "adaptive_")
    for d in (1, 2, 3)
)
"""Means of neighbouring values, or of all."""
ONES = ("ones", "ones_like", "new_ones")
"""Tensors that are one throughout: a product with them adds up."""
WAVES = ("sin", "cos")
"""Functions of angles, whose digits are lost where the angle is large."""
DIAGONALS = ("diag", "diagonal", "linalg.diagonal")
"""The diagonal that a matrix has."""
DIAGONAL_MATRICES = ("diag", "diag_embed")
"""The matrix that a diagonal makes."""
INVERSES = ("reciprocal", "rsqrt")
"""One, divided by the operand or its root."""
FROM_ONE = ("log1p", "logit", "atanh")
"""Logarithms of what an operand lacks to 1."""
TOTALS = ("sum", "prod", "cumsum", "cumprod")
"""Whose logarithm is infinite where all, or one, of what they take are 0."""
OUTER_SUMS = ("einsum", "outer", "nn.functional.linear")
"""Products in whose terms a sum of their operands grows with the batch."""
PLUS_PRODUCTS = ("addmm", "baddbmm")
"""Of three operands, of which the last two are multiplied."""
SORTS = (
    "sort",
    "msort",
    "topk",
    "kthvalue",
    "mode",
    "cummax",
    "cummin",
    "aminmax",
)
"""What gives values of its operand, most with the places where they stood."""
VALUES = "values"
"""The name of the values beside their places: `x.sort().values`."""
CASTS = ("cast", "float32", "double", "half")
"""What a row says of its result where the operator converts what it takes."""
CONVERSIONS = (*CASTS, "int", "bool")
"""Those, and the conversions to whole numbers."""
