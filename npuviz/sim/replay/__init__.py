"""Contents of memories after any prefix of a machine's log: forward by applying, back by undoing or from
kept states."""
