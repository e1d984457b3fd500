"""Compile CSL: from source text to the layout of a program and the code of its processing elements."""
