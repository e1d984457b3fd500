"""Choose the arrangement of docks for the open file, and store how the user changed it."""

from typing import Any, cast

from npuviz.ui.bridge.session_model import SessionModel
from npuviz.ui.shell.docks import Docks
from npuviz.workbench.layouts import Layout, layout_for, layout_named
from npuviz.workbench.settings import Settings

KEY = "layouts"
"""Name of the setting {name of a usual layout: what `Docks.save` returned}."""
RESULTS = "sweep"
"""Name of the layout for results of a sweep, whose arrangement is never stored."""


class Arrangement:
    """Arranges the docks when a file is opened, and remembers where the user put them.

    One arrangement is stored for each usual layout: that of fabrics, of recorded profiles, of other machines.
    """

    def __init__(self, docks: Docks, model: SessionModel, settings: Settings) -> None:
        self._docks, self._model, self._settings = docks, model, settings
        self._kind = ""

    def show(self, *, is_first: bool) -> None:
        """Show the docks for the open file; `is_first`: the start page was shown before, not another file."""
        usual = self._usual()
        if is_first or usual.name != self._kind:
            if not is_first:
                self.remember()
            self._kind = usual.name
            self._arrange(usual)
        self._docks.follow_machine()
        # Only now, because panels fit their contents to the size at which they are created.
        self._docks.make_seen()
        self._docks.make_listening()
        self._docks.focus_first("timeline", "sweep")

    def remember(self) -> None:
        """Store the docks as they are for the next machine with this usual layout."""
        if self._docks.panels and self._kind not in ("", RESULTS):
            self._settings.set(KEY, {**self._kept(), self._kind: self._docks.save()})

    def forget(self) -> None:
        """Delete the stored arrangement, so that the next file begins with the layout as declared."""
        kept = {kind: stored for kind, stored in self._kept().items() if kind != self._kind}
        self._settings.set(KEY, kept or None)

    def _usual(self) -> Layout:
        """Return the layout in which the open machine is shown by default."""
        model, description = self._model, self._model.description
        is_estimated = description is not None and description.features.get("estimated") is True
        return layout_for(model.features, is_recorded=model.session is None or is_estimated)

    def _arrange(self, usual: Layout) -> None:
        """Restore the stored arrangement of this layout, or apply the layout if there is none."""
        stored = self._kept().get(usual.name) if usual.name != RESULTS else None
        if self._docks.restore(stored):
            return
        name = str(cast(dict[str, Any], stored).get("layout", "")) if isinstance(stored, dict) else ""
        self._docks.apply(layout_named(name) or usual)

    def _kept(self) -> dict[str, Any]:
        kept = self._settings.get(KEY)
        return cast(dict[str, Any], kept) if isinstance(kept, dict) else {}
