"""The causes panel: what holds the run up, what would help, and what each unit lost its cycles to."""
