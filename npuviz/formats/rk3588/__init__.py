"""Read and write files of the RK3588 NPU: registers, task descriptors, tensor layouts,
command streams, containers."""
