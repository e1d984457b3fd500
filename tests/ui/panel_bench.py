"""One panel on the toy machine, without a window around it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from npuviz.debug.session import Session
from npuviz.ui.bridge.hazard_watch import HazardWatch
from npuviz.ui.bridge.session_model import SessionModel
from npuviz.ui.kit.panel import FRAME_MS, Panel, PanelContext
from npuviz.ui.theme.theme import Theme
from npuviz.workbench.commands import Command, CommandRegistry
from npuviz.workbench.opening import Opened, OpenOptions
from npuviz.workbench.selection import Selection, SelectionModel
from npuviz.workbench.settings import Settings
from tests.toy.session import make_session

P = TypeVar("P", bound=Panel)


class Bench:
    """A context with its own model; `ran` collects the ids of commands that panels asked for."""

    def __init__(self, qtbot: QtBot) -> None:
        self.qtbot = qtbot
        self.ran: list[str] = []
        commands = CommandRegistry()
        commands.add(Command("file.open", "Open", lambda: self.ran.append("file.open")))
        self.model = SessionModel()
        self.hazards = HazardWatch(self.model)
        self.context = PanelContext(
            self.model, SelectionModel(), Theme("dark"), commands, Settings(), self.hazards
        )

    def make(self, create: Callable[[PanelContext], P], width: int = 420, height: int = 480) -> P:
        panel = create(self.context)
        self.qtbot.addWidget(panel, before_close_func=lambda _widget: panel.dispose())
        panel.resize(width, height)
        panel.show()
        return panel

    def open_toy(self, blocks: int = 8, **sizes: int) -> Session:
        session = make_session(blocks, records=True, budget_bytes=64 << 20, cycle_seconds=0.0, **sizes)
        opened = Opened(Path("toy.toy"), "toy", OpenOptions(), reader=session.trace, session=session)
        self.model.show_opened(opened)
        return session

    def open_bundle_of(self, session: Session) -> None:
        """Show only the trace of a session, as for a bundle."""
        self.model.show_opened(Opened(Path("run"), "run", OpenOptions(), reader=session.trace))

    def do(self, verb: Callable[[], None]) -> None:
        """Call a verb of the model and wait for its end."""
        verb()
        self.qtbot.waitUntil(lambda: not self.model.is_running and not self.model.is_busy)
        self.settle()

    def select(self, **fields: object) -> None:
        self.context.selection.set(Selection().with_fields(**fields))
        self.settle()

    def settle(self) -> None:
        """Let the frame timers of the panels deliver what is due."""
        frame = QTimer()
        frame.setSingleShot(True)
        with self.qtbot.waitSignal(frame.timeout):
            frame.start(2 * FRAME_MS)

    def close(self) -> None:
        self.hazards.shut_down()
        self.model.shut_down()


def pixels(panel: QWidget) -> np.ndarray:
    """(height, width, 4) uint8 of what a panel looks like."""
    image = panel.grab().toImage()
    flat = np.frombuffer(bytes(image.constBits()), dtype=np.uint8)
    return flat.reshape(image.height(), image.width(), 4).copy()


@pytest.fixture
def bench(qtbot: QtBot) -> Iterator[Bench]:
    made = Bench(qtbot)
    yield made
    made.close()
