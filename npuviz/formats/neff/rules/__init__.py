"""Define the rules that a NEFF has to keep, as a table, and check them."""
