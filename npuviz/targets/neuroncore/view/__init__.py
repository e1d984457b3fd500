"""Describe a NeuronCore machine and its state to the panels: units, contents, listing, reports, floorplan."""
