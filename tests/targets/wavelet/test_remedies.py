"""Remedies of a wafer are settings that it has, for kinds of work and waits that it records."""

from pathlib import Path

import pytest

from npuviz.sim.target import LoadRequest
from npuviz.targets.wavelet.remedies import remedies
from npuviz.targets.wavelet.spec import make_spec
from npuviz.targets.wavelet.view.description import _kinds


@pytest.mark.parametrize("preset", ["wse2", "wse3", "wse3-silicon"])
def test_every_remedy_changes_the_machine(preset: str) -> None:
    before, _ = make_spec(preset)
    names = {kind.name for kind in _kinds()}
    found = remedies(LoadRequest(Path("layout.csl"), preset))
    for remedy in found:
        after, _ = make_spec(preset, None, remedy.settings)
        assert after != before, remedy
        assert remedy.kinds
        assert remedy.kinds <= names
        # No recorded time is proportional to any of these settings.
        assert not remedy.effects
    assert {"words", "room", "host", "fmacs"} <= {kind for remedy in found for kind in remedy.kinds}


def test_what_is_set_stays_and_what_cannot_be_better_is_not_offered() -> None:
    settings = {"rates": "fadds=4", "hop": "1", "ramp": "1", "turn": "0", "buffer_words": "64"}
    found = remedies(LoadRequest(Path("layout.csl"), "wse3", settings=settings))
    assert not {"words", "room"} & {kind for remedy in found for kind in remedy.kinds}
    rates = [remedy.settings["rates"] for remedy in found if "rates" in remedy.settings]
    assert all(text.startswith("fadds=4,") for text in rates)
    assert "fadds=4,fadds=8/1" in rates
