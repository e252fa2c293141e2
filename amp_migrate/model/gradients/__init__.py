"""What a program does with gradients."""
