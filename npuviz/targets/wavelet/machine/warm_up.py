"""Compiles the kernels ahead of the first run, or loads them from the cache."""

import numpy as np

from npuviz.base.progress import Progress
from npuviz.sim.events import EventBuffer
from npuviz.sim.stop import NO_STOPS
from npuviz.targets.wavelet.machine.engine import Engine
from npuviz.targets.wavelet.spec import make_spec
from npuviz.targets.wavelet.wafer import Wafer


def warm_up(progress: Progress) -> None:
    """Run a wafer without programs."""
    progress.report(-1.0, "compiling kernels (first run only)")
    spec, _ = make_spec()
    engine = Engine(spec, Wafer("", "wse3", 1, 1, (), np.full((1, 1), -1, np.int32), {}))
    engine.close()
    engine.advance(1 << 40, NO_STOPS, EventBuffer(engine.event_margin))
