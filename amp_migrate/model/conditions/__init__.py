"""When code runs: what conditions say, and what decides them."""
