"""Runs the programs of `fixtures/`, with AMP off and with AMP on, and says what they did."""
