"""The accuracy panel: errors of a run's tensors against the reference, as a table and two charts."""
