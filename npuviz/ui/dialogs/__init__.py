"""Dialogs for choices; errors are never dialogs. May import widgets, bridge and theme. One file each."""
