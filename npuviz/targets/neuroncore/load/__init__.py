"""Load files as programs: models are compiled, kernels traced, NEFFs decoded or estimated."""
