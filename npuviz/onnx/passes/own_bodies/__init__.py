"""Bodies for operators for which the standard defines none."""
