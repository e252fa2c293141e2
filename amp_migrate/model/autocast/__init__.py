"""Autocast regions, and which dtype holds where."""
