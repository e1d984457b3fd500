"""Stand-in for neuronxcc.nki.isa."""

from npuviz.targets.neuroncore.nki.calls.isa_first import *  # noqa: F403


def __getattr__(name: str) -> object:
    raise AttributeError(f"nisa.{name} is not in the public documentation, or not simulated yet")
