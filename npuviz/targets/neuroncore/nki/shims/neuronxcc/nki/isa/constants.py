"""Stand-in for neuronxcc.nki.isa.constants."""

from npuviz.targets.neuroncore.nki.calls.isa.first import dge_mode, engine, nc_version, oob_mode, reduce_cmd
from npuviz.targets.neuroncore.nki.rules import names as _names

__all__ = ["dge_mode", "engine", "nc_version", "oob_mode", "reduce_cmd"]
__getattr__ = _names.keep_public(globals(), "nki.isa.constants", tuple(__all__), (), 1)
