"""Which side runs a layer."""
