"""A file for each family of inputs; see tests.fuzz."""
