"""State and program words of one machine, and the calls of the kernel that advance it."""

from dataclasses import dataclass

import numpy as np

from npuviz.sim.dram import simple_kernels as dk
from npuviz.sim.dram.records_kernels import DRAM
from npuviz.sim.events import EventBuffer
from npuviz.sim.network import records_kernels as fk
from npuviz.sim.network import simple_kernels as ik
from npuviz.sim.parts.kernel_call import KernelCall
from npuviz.targets.systolic.kernels import advance as kernels
from npuviz.targets.systolic.kernels import records as sk
from npuviz.targets.systolic.machine.state_words import (
    FIRST_BURSTS,
    FIRST_POOL,
    NO_RESERVE,
    Reserve,
    StateShape,
    build_program_words,
    build_state,
    grow_state,
    new_state,
)
from npuviz.targets.systolic.spec import SystolicSpec
from npuviz.targets.systolic.tables import SystolicTables

LAST_CYCLE = 1 << 46
"""Cycles beyond this one are not reached: times are picoseconds in 64 bits."""


@dataclass(frozen=True, slots=True)
class StillEngine:
    """The readable part of an engine, for a state that does not change."""

    spec: SystolicSpec
    tables: SystolicTables
    state: np.ndarray
    shape: StateShape

    def still(self) -> "StillEngine":
        """Return this engine."""
        return self


class Engine:
    """The kernels' state and program words.

    state  (words,) int64 root state, owned; replaced when it grows or is restored
    """

    def __init__(self, spec: SystolicSpec, tables: SystolicTables, reserve: Reserve = NO_RESERVE) -> None:
        self.spec = spec
        self.tables = tables
        self._reserve = reserve
        self.shape = StateShape(spec, tables, FIRST_BURSTS, FIRST_POOL, reserve)
        self.state = build_state(spec, tables, self.shape)
        self.words = build_program_words(spec, tables, 2 * spec.num_cores)
        self.event_margin = _event_rows(spec, self.shape)
        self._advance = kernels.advance if spec.flits is None else kernels.advance_network

    def advance(self, until: int, stops: np.ndarray, events: EventBuffer | None) -> tuple[int, np.ndarray]:
        """Run the kernel; returns its RESULT_ code and a hit word per stop row.

        Grows the burst rings and the packet pool as often as the program needs it.
        """
        call = KernelCall(min(until, LAST_CYCLE), stops, events, self.event_margin)
        while True:
            result = call.run(self._advance, self.state, self.words, call.x, call.rows, self.event_margin)
            if result == sk.RESULT_GROW_POOL:
                self._grow(self.shape.bursts, self.shape.pool * 4, self.shape.flits)
            elif result == sk.RESULT_GROW_BURSTS:
                self._grow(self.shape.bursts * 4, self.shape.pool, self.shape.flits)
            elif result == sk.RESULT_GROW_FLITS:
                self._grow(self.shape.bursts, self.shape.pool, self.shape.flits * 4)
            else:
                break
        return result, call.finish()

    def _grow(self, bursts: int, pool: int, flits: int) -> None:
        shape = StateShape(self.spec, self.tables, bursts, pool, self._reserve, flits)
        self.state = grow_state(self.state, self.shape, shape)
        self.shape = shape

    def can_hold(self, tables: SystolicTables) -> bool:
        """Return whether the state has room for a program that this one is the beginning of."""
        room = self.shape
        shape = StateShape(self.spec, tables, room.bursts, room.pool, self._reserve, room.flits)
        return shape.at == self.shape.at

    def extend(self, tables: SystolicTables) -> None:
        """Continue with a longer program that begins with the present one; the state keeps its place."""
        self.tables = tables
        self.words = build_program_words(self.spec, tables, 2 * self.spec.num_cores)
        self.state[sk.CHIP.layers_total] = len(tables.layers)
        self.state[sk.CHIP.launches_total] = len(tables.launches)

    def used_state(self) -> np.ndarray:
        """Return the words in use: everything but packets never used yet (a view)."""
        noc = ik.NOC(self.state, self.state[sk.CHIP.noc])
        return self.state[: noc.pool + int(noc.fresh) * self.shape.stride]

    def still(self) -> StillEngine:
        """Copy the present state into a StillEngine."""
        return StillEngine(self.spec, self.tables, self.used_state().copy(), self.shape)

    def restore_state(self, words: np.ndarray) -> None:
        """Restore the words that `used_state` returned, with the capacities they had."""
        bursts, pool = int(words[sk.CHIP.burst_capacity]), int(ik.NOC(words, words[sk.CHIP.noc]).capacity)
        net = int(words[sk.CHIP.net])
        flits = int(fk.NET(words, net).capacity) if net else 0
        if (bursts, pool, flits) != (self.shape.bursts, self.shape.pool, self.shape.flits):
            self.shape = StateShape(self.spec, self.tables, bursts, pool, self._reserve, flits)
            self.state = new_state(self.shape)
        self.state[: len(words)] = words
        self.state[len(words) :] = 0

    @property
    def dram_latency(self) -> int:
        """DRAM cycles from a request's arrival to its earliest departure."""
        return int(dk.SIMPLE_DRAM(self.state, self.state[sk.CHIP.dram]).latency)

    def set_dram_latency(self, cycles: int) -> None:
        """Change the DRAM's latency for requests that arrive from now on."""
        dram = dk.SIMPLE_DRAM(self.state, self.state[sk.CHIP.dram])
        if cycles != int(dram.latency):
            dram.latency = cycles
            # What arrivals of the present DRAM cycle have in common must be worked out again.
            dram.edge = 0

    def set_dram_period(self, period_ps: int) -> None:
        """Set the duration of the DRAM's cycles in picoseconds, from its next one on, which begins as
        planned."""
        chip = sk.CHIP(self.state)
        old, origin = int(chip.dram_period), int(chip.dram_origin)
        if period_ps == old:
            return
        following = -(-(int(chip.cycle) * int(chip.core_period) - origin) // old)
        chip.dram_period, chip.dram_origin = period_ps, origin + following * (old - period_ps)
        if chip.dram_kind == 1:
            DRAM(self.state, chip.dram).period = period_ps
            return
        dram, consumer = dk.SIMPLE_DRAM(self.state, chip.dram), int(chip.noc_period)
        dram.period, dram.origin, dram.edge = period_ps, int(chip.dram_origin), 0
        dram.quotient, dram.remainder = divmod(period_ps, consumer)
        for number in range(int(dram.channels)):
            channel = dk.SIMPLE_CHANNEL(dram, dk.SIMPLE_DRAM.num_words, number)
            # Departures that are announced stay; the next one comes a period after the newest of them.
            left = origin + int(channel.last) * old
            channel.last = -(-(left - dram.origin) // period_ps)
            leave = int(dram.origin) + int(channel.last) * period_ps
            channel.reply = -(-leave // consumer)
            channel.rest = int(channel.reply) * consumer - leave


def _event_rows(spec: SystolicSpec, shape: StateShape) -> int:
    """Return the number of event rows that one core cycle may need.

    Per core: a new tile empties two halves, every port may end a burst in every network cycle, and
    the steps of the core write a few rows. At the end of the run all four halves are emptied.
    """
    network_cycles = -(-spec.core_period_ps // spec.noc_period_ps)
    bursts = 3 * spec.config.icnt_injection_ports_per_core * network_cycles
    halves = 2 * (shape.spad_entries + shape.acc_entries)
    return spec.num_cores * (48 + bursts + halves) + 64
