"""What happens in a training step: the one vocabulary of planner, rules and protocol.

Events are flags, so that what a statement or a function does is the sum of its events.
"""

from __future__ import annotations

from amp_migrate.flags import Flag, auto


class EventKind(Flag):
    """One event of a training step, or several."""

    NONE = 0
    FORWARD = auto()
    CALLABLE = auto()
    """Calls something that may be a model, for all that is in sight."""
    BCE = auto()
    """A binary cross-entropy on probabilities."""
    SCALE = auto()
    SCALED_BACKWARD = auto()
    PLAIN_BACKWARD = auto()
    BACKWARD = SCALED_BACKWARD | PLAIN_BACKWARD
    UNSCALE = auto()
    CLIP = auto()
    READ = auto()
    """The values of gradients are read."""
    READS_GRADIENTS = CLIP | READ
    WRITES_GRADIENTS = auto()
    ZERO_GRAD = auto()
    SCALER_STEP = auto()
    BARE_STEP = auto()
    """A step of the optimizer itself, past the scaler."""
    STEP = SCALER_STEP | BARE_STEP
    UPDATE = auto()
    SET_SCALE = auto()
    """`update(new_scale)`, which needs no inf checks."""
    SCALER_CREATED = auto()
    OPTIMIZER_CREATED = auto()
    AUTOCAST_ENTER = auto()
    AUTOCAST_EXIT = auto()
    TRAINS = auto()
    """Runs a training loop of another file, with backward and steps of its own."""


TRAINING = EventKind.BACKWARD | EventKind.STEP | EventKind.TRAINS
GRADIENTS = EventKind.READS_GRADIENTS | EventKind.WRITES_GRADIENTS
BARRIER = TRAINING | GRADIENTS
