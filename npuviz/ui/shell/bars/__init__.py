"""The bars around the panels: toolbar, status bar, error bar, note banner."""
