"""Stand-in for torch_neuronx, used where it is not installed: its old name of nki.jit."""

from typing import NoReturn

from neuronxcc.nki import jit as nki_jit

__all__ = ["nki_jit"]


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(
        f"torch_neuronx.{name} is not part of npuviz's stand-in: npuviz runs kernels, no models"
    )
