"""Which arrangement of docks a window shows for what is open, and where it is kept."""

from npuviz.ui.bridge.session_model import SessionModel
from npuviz.ui.shell.docks import Docks
from npuviz.workbench.layouts import layout_for, layout_named
from npuviz.workbench.settings import Settings

KEY = "layout"
RESULTS = "sweep"
"""Results have a page of their own, and leave no trace in the layout of machines."""


class Arrangement:
    """Arranges the docks when something is opened, and remembers where the user put them."""

    def __init__(self, docks: Docks, model: SessionModel, settings: Settings) -> None:
        self._docks, self._model, self._settings = docks, model, settings

    def show(self, *, is_first: bool) -> None:
        """Show the docks for what is open now; `is_first` after the start page."""
        made = self._docks.make_panels()
        results = layout_named(RESULTS)
        if results is not None and "sweep results" in self._model.features:
            if not is_first:
                self.remember()
            self._docks.apply(results)
        elif is_first or self._docks.layout_name == RESULTS:
            self._arrange()
        self._docks.follow_machine()
        # Panels see the session at the size they are shown with, so that they can fit their contents.
        for panel in made:
            panel.on_session_changed()
        self._docks.focus_first("timeline")

    def remember(self) -> None:
        """Keep the docks as they are for the next start."""
        if self._docks.panels and self._docks.layout_name != RESULTS:
            self._settings.set(KEY, self._docks.save())

    def _arrange(self) -> None:
        """Put the docks where they were the last time."""
        stored = self._settings.get(KEY)
        if self._docks.restore(stored):
            return
        chosen = layout_named(str(stored.get("layout", ""))) if isinstance(stored, dict) else None
        self._docks.apply(chosen or layout_for(self._model.description))
