"""Stand-in for nki.language."""

from npuviz.targets.neuroncore.nki.calls.dynamic import *  # noqa: F403
from npuviz.targets.neuroncore.nki.calls.functions import *  # noqa: F403
from npuviz.targets.neuroncore.nki.calls.language import *  # noqa: F403
from npuviz.targets.neuroncore.nki.record.guarding import guard as _guard
from npuviz.targets.neuroncore.nki.rules import language as _language
from npuviz.targets.neuroncore.nki.rules import names as _names
from npuviz.targets.neuroncore.nki.rules.enumerations import language_rules as _language_rules
from npuviz.targets.neuroncore.nki.rules.operands import check_operands as _check_operands

__getattr__ = _names.keep_public(
    globals(), "nl", _names.LANGUAGE + _names.LANGUAGE_SECOND, _names.LANGUAGE_FIRST, 2, _language.KEPT
)
_check_operands(globals(), _language.LANGUAGE_RULES, _language_rules, "nl.")
_guard(globals(), "nl")
