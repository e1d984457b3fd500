"""Vary latencies at random by a seed, within bounds."""

import numpy as np

from npuviz.sim.latencies import Draws, Varied, scaled
from npuviz.targets.neuroncore.isa import Opcode
from npuviz.targets.neuroncore.kernels import records as sk
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.tables import Tables

# Assumed: all bounds; how much these times scatter is not published.
_ENGINE = (0.5, 4.0)
_DMA = (0.25, 8.0)
_HOST = (0.5, 2.0)

NOT_VARIED = (
    "DMA: from the trigger to the first element, and the semaphore write at the end",
    "sequencers: when an instruction without a wait follows the one before it",
)


def varied(tables: Tables) -> tuple[Varied, ...]:
    """Return the kinds of latencies that a seed varies in a run of a program, with counts and bounds."""
    hosts = int((tables.instructions["opcode"] == Opcode.HOST_CALL).sum())
    found = (
        Varied("instructions of the engines, from issue to end", len(tables.instructions) - hosts, *_ENGINE),
        Varied("DMA transfers, cycles an element", len(tables.transfers), *_DMA),
        Varied("calls of the Host", hosts, *_HOST),
    )
    return tuple(each for each in found if each.count)


def vary_instructions(spec: NeuronSpec, tables: Tables, rows: np.ndarray) -> None:
    """Vary issue and latency of INSTRUCTION rows, in place, by the spec's seed; nothing without a seed."""
    if not spec.latency_seed:
        return
    units = np.zeros(len(rows), np.int64)
    for number, (first, end) in enumerate(tables.sequencers.tolist()):
        units[first:end] = number
    draws = Draws(spec.latency_seed)
    is_host = tables.instructions["opcode"] == Opcode.HOST_CALL
    for mine, bounds, what in (
        (np.flatnonzero(~is_host), _ENGINE, "engines"),
        (np.flatnonzero(is_host), _HOST, "host"),
    ):
        factors = draws.factors(Varied(what, len(mine), *bounds), units[mine])
        for word in (sk.INSTRUCTION.issue, sk.INSTRUCTION.latency):
            rows[mine, word] = scaled(rows[mine, word], factors, 1)


def transfer_factors(spec: NeuronSpec, tables: Tables) -> np.ndarray:
    """Return the factor on each transfer's element times, (transfers,) float64; 1 without a seed."""
    count = len(tables.transfers)
    if not spec.latency_seed:
        return np.ones(count)
    queues = [transfer.queue for transfer in tables.transfers]
    return Draws(spec.latency_seed).factors(Varied("dma", count, *_DMA), queues)
