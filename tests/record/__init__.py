"""A record of real repositories at pinned commits: what becomes of each training loop, and a hash
of each file's diff, so that a change of the code shows what it changes out there.

Only names, commits, outcomes and hashes are kept here, none of the repositories' code.
"""
