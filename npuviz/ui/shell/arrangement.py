"""Which arrangement of docks a window shows for what is open, and where it is kept."""

from typing import Any, cast

from npuviz.ui.bridge.session_model import SessionModel
from npuviz.ui.shell.docks import Docks
from npuviz.workbench.layouts import Layout, layout_for, layout_named
from npuviz.workbench.settings import Settings

KEY = "layouts"
"""Setting: kind of machine -> what `Docks.save` gave."""
RESULTS = "sweep"
"""Results have a page of their own, and leave no trace in the layouts of machines."""


class Arrangement:
    """Arranges the docks when something is opened, and remembers where the user put them.

    Fabrics, recorded profiles and all other machines have an arrangement each.
    """

    def __init__(self, docks: Docks, model: SessionModel, settings: Settings) -> None:
        self._docks, self._model, self._settings = docks, model, settings
        self._kind = ""

    def show(self, *, is_first: bool) -> None:
        """Show the docks for what is open now; `is_first` after the start page."""
        usual = self._usual()
        if is_first or usual.name != self._kind:
            if not is_first:
                self.remember()
            self._kind = usual.name
            self._arrange(usual)
        self._docks.follow_machine()
        # Not before: panels see the session at the size they are shown with, so that they fit it.
        self._docks.make_seen()
        self._docks.make_listening()
        self._docks.focus_first("timeline", "sweep")

    def remember(self) -> None:
        """Keep the docks as they are for the next time that a machine of this kind is open."""
        if self._docks.panels and self._kind not in ("", RESULTS):
            self._settings.set(KEY, {**self._kept(), self._kind: self._docks.save()})

    def forget(self) -> None:
        """Begin with the layout as it is declared the next time."""
        kept = {kind: stored for kind, stored in self._kept().items() if kind != self._kind}
        self._settings.set(KEY, kept or None)

    def _usual(self) -> Layout:
        """What a machine of this kind is shown in when nobody chose."""
        model, description = self._model, self._model.description
        is_estimated = description is not None and description.features.get("estimated") is True
        return layout_for(model.features, is_recorded=model.session is None or is_estimated)

    def _arrange(self, usual: Layout) -> None:
        """Put the docks where they were the last time that such a machine was open."""
        stored = self._kept().get(usual.name) if usual.name != RESULTS else None
        if self._docks.restore(stored):
            return
        name = str(cast(dict[str, Any], stored).get("layout", "")) if isinstance(stored, dict) else ""
        self._docks.apply(layout_named(name) or usual)

    def _kept(self) -> dict[str, Any]:
        kept = self._settings.get(KEY)
        return cast(dict[str, Any], kept) if isinstance(kept, dict) else {}
