"""Models, the calls that run them, and losses."""
