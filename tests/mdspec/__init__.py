"""Pages and specs as test cases."""
