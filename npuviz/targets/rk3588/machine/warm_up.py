"""Compiles the kernels ahead of the first run, or loads them from the cache."""

from npuviz.base.progress import Progress
from npuviz.sim.events import EventBuffer
from npuviz.sim.parts.bits_kernels import light_optimisation
from npuviz.sim.stop import NO_STOPS
from npuviz.targets.rk3588.machine.engine import Engine
from npuviz.targets.rk3588.machine.state_words import numbering
from npuviz.targets.rk3588.spec import make_spec
from npuviz.targets.rk3588.tables import Tables


def warm_up(progress: Progress) -> None:
    """Run a program without tasks."""
    progress.report(-1.0, "compiling kernels (first run only)")
    spec, _ = make_spec()
    with light_optimisation():
        engine = Engine(spec, Tables(1, (), (), 0), 0, numbering(spec))
        engine.advance(1 << 40, NO_STOPS, EventBuffer(engine.event_margin))
