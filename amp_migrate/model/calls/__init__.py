"""Who calls whom, and what a call may run."""
