"""Stand-in for neuronxcc.nki.language."""

from npuviz.targets.neuroncore.nki.calls.functions import *  # noqa: F403
from npuviz.targets.neuroncore.nki.calls.language import *  # noqa: F403


def __getattr__(name: str) -> object:
    raise AttributeError(f"nl.{name} is not in the public documentation, or not simulated yet")
