"""The command of the menu Help that starts the guided tour, and the offer of it for new samples."""

from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QTimer

from npuviz.ui.kit.panel import PanelContext
from npuviz.ui.shell.docks import Docks
from npuviz.ui.shell.tour import Tour
from npuviz.workbench.commands import Command
from npuviz.workbench.resources import sample_models_path
from npuviz.workbench.samples import sample_entries
from npuviz.workbench.tours import tour_of

OFFERED = "tours_offered"
"""Name of the setting that lists the targets whose tours were offered."""


class TourCommands:
    """Begins tours, and offers one when a sample of a machine is opened for the first time.

    tell  shows a notice with a button
    """

    def __init__(self, docks: Docks, context: PanelContext, tell: Callable[..., None]) -> None:
        self._context, self._tell = context, tell
        self.tour = Tour(docks, context)
        self._is_asked = False
        self._soon = QTimer(self.tour, singleShot=True, interval=0)
        self._soon.timeout.connect(self._opened)
        context.model.session_changed.connect(self._soon.start)

    def all(self) -> list[Command]:
        """Return the command."""
        return [
            Command("help.tour", "Tour", self.begin, self._can_begin, menu="Help", order=-1,
                    icon="mdi6.map-marker-path",
                    doc="Two minutes with the machine that is open, or with the first sample"),
        ]  # fmt: skip

    def begin(self) -> None:
        """Begin the tour of the open machine; if nothing is open, open a sample first."""
        if self._context.model.opened is not None:
            self.tour.begin(tour_of(self._target()))
            return
        entry = next((each for each in sample_entries() if tour_of(each.options.target)), None)
        if entry is not None:
            self._is_asked = True
            self._context.model.open(entry.path, entry.options)

    def _can_begin(self) -> bool:
        """Return whether nothing is open, or a session of a machine with a tour: no open file is replaced."""
        model = self._context.model
        return model.opened is None or (model.session is not None and bool(tour_of(self._target())))

    def _target(self) -> str:
        opened = self._context.model.opened
        return opened.target.id if opened is not None and opened.target is not None else ""

    def _opened(self) -> None:
        """Begin the tour if the user asked for it, or offer that of a sample opened for the first time."""
        was_asked, self._is_asked = self._is_asked, False
        opened, target = self._context.model.opened, self._target()
        if opened is None or opened.session is None or not tour_of(target):
            return
        if was_asked:
            self.begin()
            return
        settings = self._context.settings
        stored: Any = settings.get(OFFERED)
        offered = [str(name) for name in stored] if isinstance(stored, list) else []
        is_sample = opened.path.resolve().is_relative_to(sample_models_path().resolve())
        # If settings are not stored, the tour would be offered every time.
        if settings.is_kept and is_sample and target not in offered:
            settings.set(OFFERED, [*offered, target])
            text = "New here? A tour of two minutes shows what there is to see."
            self._tell(text, ("Tour", self.begin), is_offer=True)
