"""What a loop needs of other files, and what a file gets."""
