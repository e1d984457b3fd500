"""Stand-in for torch_neuronx.xla_impl."""
