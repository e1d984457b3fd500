"""What the start page offers: recent files, and the sample models that a target takes."""

from npuviz.ui.shell.start_page import StartItem
from npuviz.workbench.choosing import read_head, targets
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
        head = read_head(path)
        takers = [target.title for target in known.values() if head and target.accepts(path, head)]
        if takers:
            found.append(StartItem(path.stem, takers[0], path))
    return found
