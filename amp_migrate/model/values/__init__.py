"""What names and attributes hold."""
