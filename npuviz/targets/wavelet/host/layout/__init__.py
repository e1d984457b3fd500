"""Layouts that host programs build: code regions, their connections, and how they are compiled."""
