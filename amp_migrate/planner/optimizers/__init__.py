"""Which optimizers a loop steps, and what they are given."""
