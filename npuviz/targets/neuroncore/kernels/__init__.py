"""The records of a NeuronCore and its hot loops: compiled code, which imports only compiled code."""
