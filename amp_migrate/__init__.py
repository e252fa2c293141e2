"""Plain PyTorch training loops in, correct mixed precision out."""

__version__ = "0.1.0"
