"""Stand-in for nki.collectives."""

from npuviz.targets.neuroncore.nki.calls.collectives import *  # noqa: F403


def __getattr__(name: str) -> object:
    raise AttributeError(f"nki.collectives.{name} is not in the public documentation, or not simulated yet")
