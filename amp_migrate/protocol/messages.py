"""What stands beside a mistake: the words at the places that it conflicts with."""

from __future__ import annotations

SCALED = "scaled here"
CLEARED = "cleared here"
CLIPPED = "clipped here"
READ = "read here"
UNSCALED = "unscaled here"
UPDATED = "updated here"
STEPPED = "the scaler steps here"
USED = "the scaler is used here"
CALLED_AGAIN = "called again here"
MORE_GRADIENTS = "more gradients are added here"
DIVIDED_AGAIN = "the gradients are divided again here"
OLD_SCALE = "the gradients of the old scale are used here"
