"""What the start page offers works."""

import pytest
from PySide6.QtGui import QImage

from npuviz.base.progress import NoProgress
from npuviz.workbench.choosing import targets
from npuviz.workbench.opening import open_file
from npuviz.workbench.samples import SampleEntry, sample_entries

pytestmark = pytest.mark.usefixtures("kept_scripts")

ENTRIES = sample_entries()


def test_every_machine_of_npuviz_has_a_sample() -> None:
    assert {entry.options.target for entry in ENTRIES} >= {"systolic", "neuroncore", "rk3588", "wavelet"}
    assert {entry.machine for entry in ENTRIES} <= {target.title for target in targets().values()}


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.options.target)
def test_a_sample_opens_and_steps(entry: SampleEntry) -> None:
    opened = open_file(entry.path, entry.options, NoProgress())
    assert opened.session is not None
    opened.session.step(100)
    assert opened.session.cycle == 100
    opened.close()


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.options.target)
@pytest.mark.parametrize("theme", ["dark", "light"])
def test_a_sample_has_its_picture(entry: SampleEntry, theme: str) -> None:
    image = QImage(str(entry.picture / f"{theme}.png"))
    assert (image.width(), image.height()) == (416, 234)
