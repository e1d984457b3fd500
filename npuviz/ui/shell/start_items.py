"""What the start page offers: recent files, and the sample models that a target takes."""

from pathlib import Path

from npuviz.ui.widgets.start_page import StartItem
from npuviz.workbench.opening import targets
from npuviz.workbench.resources import sample_models_path
from npuviz.workbench.settings import Settings


def recent_items(settings: Settings) -> list[StartItem]:
    """The files opened lately."""
    return [StartItem(path.name, str(path.parent), path) for path in settings.recent_files()]


def sample_items() -> list[StartItem]:
    """Sample models, each with the machine that runs it."""
    folder = sample_models_path()
    if not folder.is_dir():
        return []
    known = targets()
    found: list[StartItem] = []
    for path in sorted(folder.rglob("*")):
        takers = [target.title for target in known.values() if path.suffix in target.file_kinds]
        if path.is_file() and takers:
            found.append(StartItem(path.stem, takers[0], Path(path)))
    return found
