"""Mistakes of whole little projects: those that people shipped, and those that no file shows
alone.
"""
