"""The fabric panel: elements on their grid, the load of links, routes, and words on their way."""
