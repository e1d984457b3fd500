"""The breakpoints of the session, and the line in which conditions are typed."""
