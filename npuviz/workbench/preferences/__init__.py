"""What a user prefers: looks, keys, memory; declared once, kept in the settings."""
