"""Read files of the simulator ONNXim and of the tools in it: hardware, DRAM, network, mappings, workloads."""
