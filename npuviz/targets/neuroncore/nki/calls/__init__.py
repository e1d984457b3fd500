"""The functions that kernels call, as steps of the recording."""
