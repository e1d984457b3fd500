"""Read, verify and write NEFF files of a NeuronCore, and estimate schedules for the vendor's own files."""
