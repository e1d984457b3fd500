"""Lower each kind of expression, statement and builtin; one file per family."""
