"""Stand-in for nki.isa."""

from npuviz.targets.neuroncore.nki.calls.isa_second import *  # noqa: F403
from npuviz.targets.neuroncore.nki.calls.ordering import return_instructions as _return_instructions
from npuviz.targets.neuroncore.nki.record.errors import Undocumented as _Undocumented
from npuviz.targets.neuroncore.nki.record.guarding import guard as _guard
from npuviz.targets.neuroncore.nki.rules.documented import RULES as _RULES
from npuviz.targets.neuroncore.nki.rules.operands import check_operands as _check_operands

_check_operands(globals(), _RULES)
_return_instructions(globals())
_guard(globals(), "nisa")


def __getattr__(name: str) -> object:
    raise _Undocumented(f"nisa.{name}")
