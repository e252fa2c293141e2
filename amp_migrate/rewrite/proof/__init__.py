"""Proof, before anything is written, that a rewritten module is the same program with AMP off."""

from amp_migrate.rewrite.proof.check import check
from amp_migrate.rewrite.proof.erase import erase
from amp_migrate.rewrite.proof.facts import Failure, Introduced

__all__ = ["Failure", "Introduced", "check", "erase"]
