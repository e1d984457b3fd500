"""The preferences dialog: all preferences on one page, with search."""
