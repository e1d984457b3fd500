"""NEFF files of a NeuronCore: reading, verifying, writing, and what the vendor's own files tell."""
