"""Execute the text debugger's commands, one a line, for terminals, scripts and the console panel."""
