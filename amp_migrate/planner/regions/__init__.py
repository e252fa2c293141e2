"""Where autocast goes: forwards and losses."""
