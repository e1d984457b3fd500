"""The machine that kernels of this process are compiled for."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache

from npuviz.base.errors import UsageError
from npuviz.targets.neuroncore.spec import NeuronSpec, make_spec

PLATFORM = "NEURON_PLATFORM_TARGET_OVERRIDE"
"""Environment variable by which scripts choose the machine."""
_PLATFORMS = {name: name for name in ("trn1", "inf2", "trn2", "trn3")} | {
    "gen2": "trn1", "gen3": "trn2", "gen4": "trn3"
}  # fmt: skip
# Ref: aws-neuron-sdk 81ce03ae, nki/api/nki/__init__.py, jit
_SPEC: ContextVar[NeuronSpec | None] = ContextVar("spec", default=None)


def spec_in_use(platform: str = "") -> NeuronSpec:
    """The machine that the kernel which runs is compiled for.

    Outside of kernels it is the one of the environment, else `platform`, which a kernel of a script may name,
    else the default one. Raises UsageError.
    """
    found = _SPEC.get()
    if found is not None:
        return found
    asked = os.environ.get(PLATFORM, "").strip() or platform
    if asked and asked not in _PLATFORMS:
        source = PLATFORM if os.environ.get(PLATFORM, "").strip() else "platform_target"
        raise UsageError(f"{source} {asked[:40]!r}: expected one of {', '.join(_PLATFORMS)}")
    return _made(_PLATFORMS.get(asked, ""))


@lru_cache(maxsize=8)
def _made(preset: str) -> NeuronSpec:
    return make_spec(preset, None, {})[0]


@contextmanager
def compiled_for(spec: NeuronSpec) -> Generator[None]:
    """Kernels that are recorded inside are for this machine."""
    before = _SPEC.set(spec)
    try:
        yield
    finally:
        _SPEC.reset(before)
