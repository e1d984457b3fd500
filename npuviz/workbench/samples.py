"""Lists the sample model of each machine."""

from dataclasses import dataclass
from pathlib import Path

from npuviz.sim.target import HasSample
from npuviz.workbench.choosing import targets
from npuviz.workbench.opening import OpenOptions
from npuviz.workbench.resources import resource_path, sample_models_path


@dataclass(frozen=True)
class SampleEntry:
    """One machine with its sample.

    machine  the machine's name
    text     one sentence about what the sample shows
    picture  path of a picture for a theme: `picture / "dark.png"`; it may be missing
    panel    id of the panel that the picture shows
    """

    machine: str
    text: str
    path: Path
    options: OpenOptions
    picture: Path
    panel: str


def sample_entries() -> list[SampleEntry]:
    """Return one entry for each machine whose sample is installed."""
    found: list[SampleEntry] = []
    for target in targets().values():
        if not isinstance(target, HasSample):
            continue
        sample = target.sample
        path = sample_models_path() / sample.path
        if path.exists():
            options = OpenOptions(target.id, settings=sample.settings)
            picture = resource_path("samples") / target.id
            found.append(SampleEntry(target.title, sample.text, path, options, picture, sample.panel))
    return found
