"""What instructions and transfers compute: the contents of all memories after any prefix of the log."""
