"""The log: assumptions, stops, failures, and how long work took."""
