"""Build layouts from host programs: code regions, their connections, and how they are compiled."""
