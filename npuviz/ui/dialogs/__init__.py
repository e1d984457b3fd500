"""Dialogs for choices; errors are never dialogs. May import kit, bridge and theme. One file each."""
