"""Shows a run by the lines and loops of its program's text, as tracks beside those of its units."""
