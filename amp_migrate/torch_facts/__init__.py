"""What PyTorch is, as data: one row per thing, read by planner, rules, apex and run time alike."""
