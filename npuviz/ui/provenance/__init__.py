"""The provenance panel: a tree of what selected bytes were made from, and of their users."""
