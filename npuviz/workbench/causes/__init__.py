"""What the time of a run went to, and what would help."""
