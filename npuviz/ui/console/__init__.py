"""The console: the commands of the text debugger, on the session of the window."""
