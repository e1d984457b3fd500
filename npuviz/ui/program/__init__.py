"""The program panel: the listing of instructions of one unit or of all, of any length."""
