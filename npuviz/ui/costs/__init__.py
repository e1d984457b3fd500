"""The costs panel: cycles of a run by operator, instruction, kind of work or unit."""
