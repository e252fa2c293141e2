"""Reasons to leave a loop alone that are seen before it is planned."""
