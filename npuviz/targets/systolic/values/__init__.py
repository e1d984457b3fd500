"""What instructions compute: contents of memories and tensors, evaluated when somebody asks."""
