"""NEFF, the file of a compiled NeuronCore program: archive, JSON members, debug records, read and written."""
