"""Explain why things happened when they did: the graph of causes, the critical path,
what a change would do."""
