"""What a breakpoint can say: the language of conditions and its words."""
