"""Stand-in for torch_neuronx.xla_impl.ops."""

from neuronxcc.nki import jit as nki_jit

__all__ = ["nki_jit"]
