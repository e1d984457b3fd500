"""Lower pools, which are reductions over sliding windows."""
