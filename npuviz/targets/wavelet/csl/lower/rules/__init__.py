"""How each kind of expression, statement and builtin is lowered; one file per family."""
