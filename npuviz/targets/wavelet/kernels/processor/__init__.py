"""The processor of a node: who takes the datapath, tasks, the scalar pipeline, system calls."""
