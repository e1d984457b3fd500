"""Finds races: runs with varied latencies, and the first read that sees another value than in the nominal
run."""
