"""Networks on chip that machines share, by packet and by flit; their words are part of a machine's state."""
