"""The console panel: commands of the text debugger, or Python, on the session of the window."""
