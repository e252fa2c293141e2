"""What programs save and restore."""
