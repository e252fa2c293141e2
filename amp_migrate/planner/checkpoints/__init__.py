"""The scaler's state beside the optimizer's."""
