"""The breakpoints panel: breakpoints, bookmarks and branches of a session."""
