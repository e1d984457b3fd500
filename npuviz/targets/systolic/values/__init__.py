"""The values that instructions compute: contents of memories and tensors, evaluated on request."""
