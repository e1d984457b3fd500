"""The rules that a NEFF has to keep, as a table, and what checks them."""
