"""Preferences of the user: appearance, keys, memory; declared once, stored in the settings."""
