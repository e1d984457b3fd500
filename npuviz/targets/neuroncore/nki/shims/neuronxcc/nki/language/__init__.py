"""Stand-in for neuronxcc.nki.language."""

from npuviz.targets.neuroncore.nki.calls.functions import *  # noqa: F403
from npuviz.targets.neuroncore.nki.calls.language import *  # noqa: F403
from npuviz.targets.neuroncore.nki.record.guarding import guard as _guard
from npuviz.targets.neuroncore.nki.rules import names as _names

__getattr__ = _names.keep_public(
    globals(), "nl", _names.LANGUAGE + _names.LANGUAGE_FIRST, _names.LANGUAGE_SECOND, 1
)
_guard(globals(), "nl")
