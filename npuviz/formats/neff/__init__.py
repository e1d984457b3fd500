"""Read and write NEFF, the file of a compiled NeuronCore program: archive, JSON members, debug records."""
