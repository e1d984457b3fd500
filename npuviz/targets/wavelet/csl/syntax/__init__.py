"""CSL text to syntax tree: grammar, parser, nodes, errors with their place."""
