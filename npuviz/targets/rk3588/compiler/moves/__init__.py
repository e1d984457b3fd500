"""Lower what only moves elements: copies, views, parts, and moves between channels and positions."""
