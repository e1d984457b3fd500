"""The inspector: whatever is selected, in words and numbers, as pages of links."""
