"""The events of a training step: optimizers, scalers, and what calls do to them."""
