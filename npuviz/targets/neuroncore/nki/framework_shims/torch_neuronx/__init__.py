"""Stand-in for torch_neuronx, used where it is not installed: what it has for kernels.

Ref: aws-neuron-sdk 2.32, nki/get-started/about/index.rst (nki_op, nki); SDK 2.26 (nki_jit)
"""

import importlib
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import nki
from neuronxcc.nki import jit as nki_jit

from torch_neuronx.nki_hop import wrap_nki

__all__ = ["nki", "nki_jit", "nki_op", "wrap_nki"]


def nki_op(name: str, fn: Any = None, *, mutates_args: Iterable[str] = (), **_: Any) -> Callable[..., Any]:
    """A function that calls kernels, as an operator of torch."""
    register: Any = importlib.import_module("torch").library.custom_op
    return register(name, fn, mutates_args=tuple(mutates_args))


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(
        f"torch_neuronx.{name} is not part of npuviz's stand-in: npuviz runs kernels, no models"
    )
