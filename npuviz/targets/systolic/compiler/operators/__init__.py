"""Lowerings of operators to layers of tiles in true mode; `families` lists them all."""
