"""Language models in iterations: admission of requests, memory check, and layers of iterations in true
mode."""
