"""Lower each operator to tasks, one file per family."""
