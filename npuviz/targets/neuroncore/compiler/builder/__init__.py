"""What lowerings write programs with: tiles, movements and computing instructions."""
