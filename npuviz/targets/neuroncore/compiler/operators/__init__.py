"""Lower operators: a folder or file for each family, found by its tables LOWERINGS and EPILOGUES."""
