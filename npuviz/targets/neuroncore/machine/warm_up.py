"""Compiles the kernels ahead of the first run, or loads them from the cache."""

import numpy as np

from npuviz.base.progress import Progress
from npuviz.program.graph import Graph
from npuviz.sim.events import EventBuffer
from npuviz.sim.parts.bits_kernels import light_optimisation
from npuviz.sim.stop import NO_STOPS
from npuviz.targets.neuroncore.isa import INSTRUCTION_DTYPE, NUM_ENGINES
from npuviz.targets.neuroncore.machine.engine import Engine
from npuviz.targets.neuroncore.spec import make_spec
from npuviz.targets.neuroncore.tables import Tables
from npuviz.targets.neuroncore.view.description import numbering, used_semaphores


def warm_up(progress: Progress) -> None:
    """Run a program without instructions."""
    progress.report(-1.0, "compiling kernels (first run only)")
    spec, _ = make_spec()
    none = np.zeros(0, np.int32)
    tables = Tables(
        num_cores=1,
        instructions=np.zeros(0, INSTRUCTION_DTYPE),
        sequencers=np.zeros((NUM_ENGINES + 1, 2), np.int64),
        nodes=none,
        tiles=none,
        transfer_of=none,
        transfers=(),
        queue_sets=(),
        variables=(),
    )
    graph = Graph("warm-up", (), (), (), ())
    used = used_semaphores(spec, tables)
    with light_optimisation():
        engine = Engine(spec, tables, graph, numbering(spec, tables, used))
        engine.advance(1 << 40, NO_STOPS, EventBuffer(engine.event_margin))
