"""The machine that kernels of this process are compiled for."""

from collections.abc import Generator
from contextlib import contextmanager

from npuviz.targets.neuroncore.spec import NeuronSpec, make_spec

_SPECS: list[NeuronSpec] = []


def spec_in_use() -> NeuronSpec:
    """The machine that the kernel which runs is compiled for; outside of kernels the default one."""
    return _SPECS[-1] if _SPECS else make_spec("", None, {})[0]


@contextmanager
def compiled_for(spec: NeuronSpec) -> Generator[None]:
    """Kernels that are recorded inside are for this machine."""
    _SPECS.append(spec)
    try:
        yield
    finally:
        _SPECS.pop()
