"""Writes by index, mask and position, and the dtypes that they demand."""

from amp_migrate.torch_facts.ops.row import Op

ROWS: tuple[Op, ...] = (
    Op("masked_fill", "*_", constants=((2, "value"),)),
    Op("fill", "t.fill .fill_ .fill_diagonal_", constants=((1, "value"),)),
    Op("index_fill", "*_", constants=((3, "value"),)),
    Op("zero", ".zero_"),
    Op("copy_", ".copy_", result="like"),
    Op("set_", ".set_"),
    Op("__setitem__", ".__setitem__"),
    Op("index_put", "*_", policy="promote", tensors=(0, 2), strict=2),
    Op("index_add", "*_", tensors=(0, 3), strict=3),
    Op("index_copy", "*_", tensors=(0, 3), strict=3),
    Op("index_reduce", "*_", tensors=(0, 3), strict=3),
    Op("scatter", "*_", tensors=(0, 3), strict=3),
    Op("scatter_add", "*_", policy="promote", tensors=(0, 3), strict=3),
    Op("scatter_reduce", "*_", tensors=(0, 3), strict=3),
    Op("masked_scatter", "*_", tensors=(0, 2), strict=2),
    Op("put", "t.put .put .put_", tensors=(0, 2), strict=2),
    Op("select_scatter", "*", tensors=(0, 1), strict=1),
    Op("slice_scatter", "*", tensors=(0, 1), strict=1),
    Op("diagonal_scatter", "*", tensors=(0, 1), strict=1),
)
