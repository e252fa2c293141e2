"""Stands in for apex, so that programs written for it run: opt_level O0 whatever they ask for."""
