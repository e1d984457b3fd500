"""Save the bookmarks of each program in the settings, and load them when it is opened."""

from PySide6.QtCore import QObject

from npuviz.ui.bridge.session_model import SessionModel
from npuviz.workbench.sessions.bookmarks import BookmarkList, read_bookmarks, stored
from npuviz.workbench.settings import Settings


class BookmarkKeeper(QObject):
    """Fills a list with the saved bookmarks of the program that is opened, and saves every change of it."""

    def __init__(self, model: SessionModel, bookmarks: BookmarkList, settings: Settings) -> None:
        super().__init__(model)
        self._model, self._bookmarks, self._settings = model, bookmarks, settings
        self._key = ""
        model.session_changed.connect(self._follow)
        bookmarks.changed.subscribe(self._store)

    def _follow(self) -> None:
        reader = self._model.reader
        # Nothing is stored while the list is filled.
        self._key = ""
        key = f"bookmarks/{reader.schema.target}/{reader.schema.title}" if reader is not None else ""
        self._bookmarks.replace_all(read_bookmarks(self._settings.get(key)) if key else ())
        self._key = key

    def _store(self) -> None:
        if self._key:
            self._settings.set(self._key, stored(self._bookmarks.all) or None)
