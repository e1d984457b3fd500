"""Networks on chip that machines share, simple (a crossbar of queues) and by flit; the words are in a machine's root state."""
