"""How each operator becomes layers of tiles in true mode; `families` is the one list."""
