"""Parse CSL text to a syntax tree: grammar, parser, nodes, errors with their place."""
