"""Dialogs for choices. May import widgets, bridge and theme. One file per dialog; errors are never dialogs."""
