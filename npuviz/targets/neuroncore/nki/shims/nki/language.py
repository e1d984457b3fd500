"""Stand-in for nki.language."""

from npuviz.targets.neuroncore.nki.calls.dynamic import *  # noqa: F403
from npuviz.targets.neuroncore.nki.calls.functions import *  # noqa: F403
from npuviz.targets.neuroncore.nki.calls.language import *  # noqa: F403
from npuviz.targets.neuroncore.nki.record.errors import Undocumented as _Undocumented
from npuviz.targets.neuroncore.nki.record.guarding import guard as _guard

_guard(globals(), "nl")


def __getattr__(name: str) -> object:
    raise _Undocumented(f"nl.{name}")
