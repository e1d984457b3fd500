"""Define the language of conditions: what a breakpoint can say, and its words."""
