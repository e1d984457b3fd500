"""How each operator becomes tasks, one file per family."""
