"""Programs with a verdict that is known: right conversions to AMP, and wrong ones."""
