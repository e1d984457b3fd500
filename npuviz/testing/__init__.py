"""Test models and kernels in your own pytest: assertions about sessions, and budgets in a file.

The fixtures are in the plug-in `npuviz_pytest`, which pytest finds by itself and which imports nothing of
npuviz before a test uses them. docs/automation.md describes both.
"""

from npuviz.base.errors import HazardWarning, KernelWarning
from npuviz.testing.assertions import (
    assert_close,
    assert_counter,
    assert_cycles,
    assert_no_hazards,
    outputs,
    ran,
)
from npuviz.testing.budgets import Budgets

__all__ = [
    "Budgets",
    "HazardWarning",
    "KernelWarning",
    "assert_close",
    "assert_counter",
    "assert_cycles",
    "assert_no_hazards",
    "outputs",
    "ran",
]
