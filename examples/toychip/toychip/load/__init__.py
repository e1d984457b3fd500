"""Files to programs."""
