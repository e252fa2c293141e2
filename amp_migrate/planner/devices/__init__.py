"""Where a program puts its models and batches."""
