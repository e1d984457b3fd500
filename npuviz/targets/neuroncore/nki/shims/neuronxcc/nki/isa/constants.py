"""Stand-in for neuronxcc.nki.isa.constants."""

from npuviz.targets.neuroncore.nki.calls.isa_first import dge_mode, engine, nc_version, oob_mode, reduce_cmd

__all__ = ["dge_mode", "engine", "nc_version", "oob_mode", "reduce_cmd"]
