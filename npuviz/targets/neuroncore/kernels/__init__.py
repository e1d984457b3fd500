"""The kernels of the NeuronCore and the records they work on; kernels import only compiled code."""
