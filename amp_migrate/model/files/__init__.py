"""Several files as one program, and the files around it."""
