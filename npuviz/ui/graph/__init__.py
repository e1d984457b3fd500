"""The operator graph: where the run is in the model."""
