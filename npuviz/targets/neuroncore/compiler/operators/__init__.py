"""How operators are lowered: a folder or a file per family, found by their tables LOWERINGS and EPILOGUES."""
