"""What becomes of the gradients between backward and step, and where that forbids scaling."""
