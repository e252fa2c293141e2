"""What the simulated GPU cannot hold, so that it stayed on the CPU."""

layouts: set[str] = set()
"""Of such tensors, as torch writes them."""
