"""The listing: instructions of one unit or of all, of any length."""
