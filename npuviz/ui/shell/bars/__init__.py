"""The lines around the panels: toolbar, status bar, progress, errors and notes."""
