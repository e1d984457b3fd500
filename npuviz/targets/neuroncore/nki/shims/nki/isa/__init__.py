"""Stand-in for nki.isa."""

from npuviz.targets.neuroncore.nki.calls.isa_second import *  # noqa: F403
from npuviz.targets.neuroncore.nki.record.errors import Undocumented as _Undocumented
from npuviz.targets.neuroncore.nki.record.guarding import guard as _guard

_guard(globals(), "nisa")


def __getattr__(name: str) -> object:
    raise _Undocumented(f"nisa.{name}")
