"""What kernels must agree on so that one class can stand around all of them."""

from types import ModuleType

import pytest

from npuviz.sim.parts import kernel_machine as km
from npuviz.targets.neuroncore.kernels import records as neuroncore
from npuviz.targets.rk3588.kernels import records as rk3588
from npuviz.targets.systolic.kernels import records as systolic


@pytest.mark.parametrize("words", [neuroncore, rk3588, systolic], ids=lambda words: words.__name__)
def test_state_words_and_result_codes_are_those_of_the_common_half(words: ModuleType) -> None:
    chip = words.CHIP
    found = (chip.cycle, chip.status, words.STATUS_FINISHED)
    assert found == (km.CYCLE_WORD, km.STATUS_WORD, km.STATUS_FINISHED)
    assert (words.RESULT_UNTIL, words.RESULT_FINISHED, words.RESULT_EVENTS) == (
        km.RESULT_UNTIL,
        km.RESULT_FINISHED,
        km.RESULT_EVENTS,
    )
