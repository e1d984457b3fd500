"""How problems are cut in true mode: what a tile may use, how the array goes over it, which cut is best."""
