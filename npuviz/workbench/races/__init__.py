"""Races: runs with other latencies, and the first read that sees another value than in the nominal run."""
