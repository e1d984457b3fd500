"""Runs a growing program ahead of time, launch by launch, to learn when each of its launches ends."""

from dataclasses import dataclass

import numpy as np

from npuviz.base.errors import TargetError
from npuviz.sim.stop import STOP_NODE_END, STOP_WORDS
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.kernels import records as sk
from npuviz.targets.systolic.machine.engine import LAST_CYCLE, Engine
from npuviz.targets.systolic.machine.state_words import Reserve
from npuviz.targets.systolic.spec import SystolicSpec
from npuviz.targets.systolic.tables import SystolicTables


@dataclass
class Rehearsal:
    """An engine whose program grows after it has run to the end. Scheduler `simple` only."""

    spec: SystolicSpec
    _engine: Engine | None = None

    def end_of(self, tables: SystolicTables) -> int:
        """Run to the end of the tables' last launch, and return its core tick.

        The tables begin with those of the call before. Raises TargetError when the chip stops early.
        """
        engine = self._engine
        if engine is None or not engine.can_hold(tables):
            # Twice as much room as is needed now: starting over costs as much as what was run so far.
            engine = self._engine = Engine(self.spec, tables, Reserve.twice(tables))
        else:
            before = len(engine.tables.launches)
            engine.extend(tables)
            _go_on(engine, before)
        return _run_to_end(engine)


def _go_on(engine: Engine, launch: int) -> None:
    """Continue the scheduler with launches that were added after it had finished."""
    s, row = engine.state, engine.tables.launches[launch]
    ended = int(_times(engine, launch - 1)[:, 1].max())
    at = max(ended + int(row[tk.LAUNCH.delay]), int(row[tk.LAUNCH.earliest]))
    s[sk.CHIP.status] = sk.STATUS_RUNNING
    s[sk.CHIP.final] = -1
    s[sk.CHIP.launch_at] = s[sk.CHIP.scheduler_wake] = at
    s[sk.CHIP.wake] = min(int(s[sk.CHIP.wake]), at)


def _times(engine: Engine, launch: int) -> np.ndarray:
    s, row = engine.state, engine.tables.launches[launch]
    first, count = int(row[tk.LAUNCH.first_layer]), int(row[tk.LAUNCH.num_layers])
    at = int(s[sk.CHIP.times]) + 2 * first
    return s[at : at + 2 * count].reshape(count, 2)


def _run_to_end(engine: Engine) -> int:
    last = engine.tables.layers[-1]
    stops = np.zeros((1, STOP_WORDS), dtype=np.int64)
    stops[0, 0], stops[0, 1] = STOP_NODE_END, int(last[tk.LAYER.node])
    ended = -1
    while ended < 0:
        result, _ = engine.advance(LAST_CYCLE, stops, None)
        ended = int(_times(engine, len(engine.tables.launches) - 1)[-1, 1])
        if ended < 0 and result != sk.RESULT_UNTIL:
            raise TargetError("the chip stops before the trace is served; run it with one request to see why")
    return ended
