"""An oracle that shares no line with the planner: whole little programs, made by a seed, run
before and after their migration.

`python -m tests.generated --count 1000 --seed 1` makes, migrates, runs and judges.
"""
