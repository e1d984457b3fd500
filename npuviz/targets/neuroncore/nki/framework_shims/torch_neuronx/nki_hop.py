"""Stand-in for torch_neuronx.nki_hop: kernels among operations of torch.

Ref: aws-neuron-sdk 2.32, vllm-neuron/docs/design/compilation and vllm-neuron/docs/model-dev (wrap_nki)
"""

from typing import Any

__all__ = ["wrap_nki"]


def wrap_nki(kernel: Any) -> Any:
    """The kernel itself: its calls run on the simulated chip at once, whoever makes them."""
    return kernel
