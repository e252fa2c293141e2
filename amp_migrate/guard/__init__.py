"""Proof, before anything is written, that a rewritten module is the same program with AMP off."""

from amp_migrate.guard.check import check
from amp_migrate.guard.erase import erase
from amp_migrate.guard.facts import Failure, Introduced

__all__ = ["Failure", "Introduced", "check", "erase"]
