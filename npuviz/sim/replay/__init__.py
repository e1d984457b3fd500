"""Recompute the contents of memories after any prefix of a machine's log: forward by applying entries, back
by undoing them or from kept states."""
