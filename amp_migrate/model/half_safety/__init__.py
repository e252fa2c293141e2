"""Which operations of a region break in half precision, and which cast mends each.

`hazards` answers for the nodes that a region runs. The planner renders the answers as casts,
refusals or notes, the rules as findings. Sources: amp-pitfalls sections 3.4 and 5, and the rows of
`torch_facts.ops`.
"""
