"""Which definitions reach a place, in the order of statements and across files."""
