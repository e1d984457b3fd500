"""The text debugger: one command a line, for terminals, scripts and the console panel."""
