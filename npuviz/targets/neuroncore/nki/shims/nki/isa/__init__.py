"""Stand-in for nki.isa."""

from npuviz.targets.neuroncore.nki.calls.isa.second import *  # noqa: F403
from npuviz.targets.neuroncore.nki.calls.ordering import return_instructions as _return_instructions
from npuviz.targets.neuroncore.nki.record.guarding import guard as _guard
from npuviz.targets.neuroncore.nki.rules import names as _names
from npuviz.targets.neuroncore.nki.rules.documented import RULES as _RULES
from npuviz.targets.neuroncore.nki.rules.enumerations import member_rules as _member_rules
from npuviz.targets.neuroncore.nki.rules.operands import check_operands as _check_operands

__getattr__ = _names.keep_public(globals(), "nisa", _names.ISA + _names.ISA_SECOND, _names.ISA_FIRST, 2)
_check_operands(globals(), _RULES, _member_rules)
_return_instructions(globals())
_guard(globals(), "nisa")
