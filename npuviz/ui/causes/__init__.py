"""The causes panel: the critical path by cause, what would shorten it, and lost cycles of units by cause."""
