"""A file as its syntax tree: nodes, spans, the order of evaluation."""
