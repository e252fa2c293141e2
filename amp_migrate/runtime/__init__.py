"""Running programs: rewritten in memory (`run`), and the original against the rewritten one
(`verify`).

The only place that imports torch, and only in modules that run in the program's own process (see
`child`).
"""
