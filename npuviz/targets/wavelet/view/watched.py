"""Choose the watched places of a wafer: they have units, tracks, queues and a memory in the description."""

from dataclasses import dataclass

import numpy as np

from npuviz.base.errors import UsageError
from npuviz.base.names import is_number
from npuviz.targets.wavelet.kernels import isa
from npuviz.targets.wavelet.kernels import records as sk
from npuviz.targets.wavelet.machine.program_words import ProgramWords
from npuviz.targets.wavelet.spec import WaveletSpec
from npuviz.targets.wavelet.wafer import PeProgram, Wafer

MAX_TRACKS = 4096
CORNER = 64
"""PEs that are watched if all of them would need too many tracks."""


@dataclass(frozen=True, slots=True)
class WatchedPe:
    """One watched place: its node, coordinates in the rectangle, microthreads and links that it may use."""

    node: int
    x: int
    y: int
    program: int
    threads: tuple[int, ...]
    ports: tuple[int, ...]
    queues: tuple[int, ...]

    @property
    def name(self) -> str:
        """Name of the place's group of units."""
        return f"PE({self.x},{self.y})"

    @property
    def num_tracks(self) -> int:
        """Tracks of the place's units."""
        return int(self.program >= 0) + len(self.threads) + len(self.ports)


def watched_places(spec: WaveletSpec, wafer: Wafer, words: ProgramWords) -> tuple[WatchedPe, ...]:
    """Return the places that the setting `watch` names.

    Without it, all places if they need few tracks, else those of a corner. Raises UsageError for a text that
    names no PEs.
    """
    nodes = words.nodes
    count = len(nodes.x)
    text = spec.watch.strip()
    if text and text not in ("all", "corner"):
        return tuple(_one(wafer, words, node) for node in _named(text, nodes.grid))
    if text == "all" or (not text and count <= MAX_TRACKS):
        found = [_one(wafer, words, node) for node in range(count)]
        if text == "all" or sum(pe.num_tracks for pe in found) <= MAX_TRACKS:
            return tuple(found)
    side = int(CORNER**0.5)
    corner = nodes.grid[:side, :side].reshape(-1)
    return tuple(_one(wafer, words, node) for node in corner[corner >= 0].tolist())


def _named(text: str, grid: np.ndarray) -> list[int]:
    found: list[int] = []
    for part in text.split(":"):
        column, _, row = part.partition(",")
        good = is_number(column.strip()) and is_number(row.strip())
        if not good or int(column) >= grid.shape[1] or int(row) >= grid.shape[0]:
            raise UsageError(
                f"--set watch={text[:60]}: expected all, corner, or places as 0,0:4,4 within "
                f"{grid.shape[1]} x {grid.shape[0]}"
            )
        node = int(grid[int(row), int(column)])
        if node >= 0 and node not in found:
            found.append(node)
    return sorted(found)


def _one(wafer: Wafer, words: ProgramWords, node: int) -> WatchedPe:
    template = words.templates[int(words.nodes.class_of[node])]
    ports = 0
    channels = [sk.CHANNEL(template.words, place) for place in template.channels.values()]
    for channel in channels:
        for position in channel.positions.tolist():
            ports |= position >> 8 & 0x1E
    is_dynamic = any(channel.slots and not channel.routed for channel in channels)
    if is_dynamic:
        ports = 0x1E
    program = wafer.programs[template.program] if template.program >= 0 else None
    threads = _threads(program) if program is not None else ()
    return WatchedPe(
        node, int(words.nodes.x[node]), int(words.nodes.y[node]), template.program, threads,
        tuple(port for port in range(1, 5) if ports >> port & 1), tuple(sorted(template.queues)),
    )  # fmt: skip


def _threads(program: PeProgram) -> tuple[int, ...]:
    if not (program.operations[:, isa.O_ASYNC] > 0).any():
        return ()
    if (program.operations[:, isa.O_UT] >= 0).any():
        return tuple(range(8))
    return tuple(sorted({binding.queue for binding in program.queues if 0 <= binding.queue < 8}))
