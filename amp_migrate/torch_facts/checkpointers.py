"""Libraries' checkpointers: what they are given by keyword is saved with its `state_dict`, and
nothing else.
"""

from __future__ import annotations

CHECKPOINTERS = frozenset(
    {
        "detectron2.checkpoint.DetectionCheckpointer",
        "detectron2.checkpoint.detection_checkpoint.DetectionCheckpointer",
        "fvcore.common.checkpoint.Checkpointer",
    }
)
ADDERS = frozenset({"add_checkpointable"})
"""Methods by which more is handed to one later."""
