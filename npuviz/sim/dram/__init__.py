"""DRAM that machines share, simple (constant latency) and by command; the words are in a machine's root state."""
