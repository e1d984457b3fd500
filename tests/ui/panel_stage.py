"""A panel on its own with a toy session, without the window around it."""

from pathlib import Path

import shiboken6

from npuviz.debug.session import Session
from npuviz.sim.recording import ProgramResolver, schema_of
from npuviz.trace.recorder import Recorder
from npuviz.ui.bridge.hazard_watch import HazardWatch
from npuviz.ui.bridge.session_model import SessionModel
from npuviz.ui.kit.panel import Panel, PanelContext, PanelSpec
from npuviz.ui.theme.theme import Theme
from npuviz.workbench.commands import CommandRegistry
from npuviz.workbench.opening import Opened, OpenOptions
from npuviz.workbench.selection import SelectionModel
from npuviz.workbench.settings import Settings
from tests.toy.program import ToySpec
from tests.toy.target import make_machine


def make_context(mode: str = "dark") -> PanelContext:
    theme = Theme("light" if mode == "light" else "dark")
    model = SessionModel()
    return PanelContext(model, SelectionModel(), theme, CommandRegistry(), Settings(), HazardWatch(model))


def toy_session(blocks: int = 16) -> Session:
    machine = make_machine(ToySpec(blocks=blocks))
    resolver = ProgramResolver(machine.program.listing, machine.description.memories)
    return Session(machine, Recorder(schema_of(machine.description, machine.program), resolver))


class Stage:
    """One panel; verbs run at once in the test's thread."""

    def __init__(self, spec: PanelSpec) -> None:
        self.context = make_context()
        self.panel: Panel = spec.create(self.context)
        self.panel.resize(900, 500)
        self.panel.on_session_changed()
        self.panel.show()

    @property
    def session(self) -> Session:
        session = self.context.model.session
        assert session is not None
        return session

    def open_toy(self, run_to: int = 0, blocks: int = 16) -> Session:
        session = toy_session(blocks)
        if run_to:
            session.go_to(run_to)
        self.context.model.show_opened(
            Opened(Path("small.toy"), "small", OpenOptions(), session.trace, session)
        )
        self.moved()
        return session

    def moved(self) -> None:
        """Tell the panel that the machine is at another cycle."""
        self.panel.show_cycle()

    def stepped(self) -> None:
        """Tell the panel that the machine is at another cycle because of one step."""
        model = self.context.model
        model.num_verbs, model.is_step = model.num_verbs + 1, True
        self.panel.show_cycle()

    def close(self) -> None:
        self.panel.dispose()
        self.panel.close()
        self.context.hazards.shut_down()
        self.context.model.shut_down()
        shiboken6.delete(self.panel)
