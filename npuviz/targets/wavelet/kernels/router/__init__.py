"""Simulate the router of a node: routes and buffers, links, switches, rings of words."""
