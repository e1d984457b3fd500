"""How long instructions and Host calls take, each figure with its source."""
