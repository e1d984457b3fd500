"""Stand-in for nki.language."""

from npuviz.targets.neuroncore.nki.calls.dynamic import *  # noqa: F403
from npuviz.targets.neuroncore.nki.calls.functions import *  # noqa: F403
from npuviz.targets.neuroncore.nki.calls.language import *  # noqa: F403
from npuviz.targets.neuroncore.nki.record.errors import Undocumented as _Undocumented
from npuviz.targets.neuroncore.nki.record.guarding import guard as _guard
from npuviz.targets.neuroncore.nki.rules.language import LANGUAGE_RULES as _RULES
from npuviz.targets.neuroncore.nki.rules.operands import check_operands as _check_operands

_check_operands(globals(), _RULES, "nl.")
_guard(globals(), "nl")


def __getattr__(name: str) -> object:
    raise _Undocumented(f"nl.{name}")
