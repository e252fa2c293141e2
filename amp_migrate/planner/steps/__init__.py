"""Backward, unscale_, step and update of a loop."""
