"""What the values of a program are under autocast: dtypes, bounds, and what they were made of."""
