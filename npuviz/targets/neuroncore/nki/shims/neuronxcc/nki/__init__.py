"""Stand-in for neuronxcc.nki, generation 1."""

from neuronxcc.nki import compiler, isa, language, typing
from npuviz.targets.neuroncore.nki.calls.entry_points import (
    baremetal,
    benchmark,
    profile,
    simulate_kernel,
)
from npuviz.targets.neuroncore.nki.calls.entry_points import jit_first as jit
from npuviz.targets.neuroncore.nki.calls.entry_points import trace_first as trace
from npuviz.targets.neuroncore.nki.record.tensors import Tensor as tensor
from npuviz.targets.neuroncore.nki.rules import names as _names

__all__ = [
    "baremetal", "benchmark", "compiler", "isa", "jit", "language", "profile", "simulate_kernel", "tensor",
    "trace", "typing",
]  # fmt: skip
__getattr__ = _names.keep_public(globals(), "nki", tuple(__all__), ("simulate",), 1)
