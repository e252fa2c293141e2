"""What turns AMP on and off."""
