"""Define a trace: event rows as kernels write them, and the columns that they become.

An event row is four int64 words, so that a kernel writes one with four stores:

    word 0   type << 56 | track << 32 | code
    word 1   start cycle        (LIFETIME: allocated at; FLOW: cycle at which it arrives)
    word 2   end cycle          (COUNTER: the new value; FLOW: producing instruction)
    word 3   instruction index  (-1: none; FLOW: consuming instruction; CAUSE: the source, see CAUSE_DTYPE)

A CAUSE row records what let a track go on: word 0 has its track as code, word 1 the cycle, word 2 the kind
<< 48 and how many cycles earlier the source was done (NOT_TOLD: when what it did on its track ended).

`track` is a track id for INTERVAL and COUNTER, a memory id for LIFETIME. `code` is a kind id for
INTERVAL, the bank of the memory for LIFETIME, 0 otherwise. Cycles are base-clock cycles; an
interval covers start <= cycle < end. Intervals of one track never overlap and are emitted in
rising order, each when it ends.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

EVENT_WORDS = 4
INTERVAL = 1
COUNTER = 2
FLOW = 3
LIFETIME = 4
CAUSE = 5
KIND_SHIFT = 48
NOT_TOLD = (1 << KIND_SHIFT) - 1
END_OF_RUN = -1
"""Track of the cause row of the end of the run; its cycle is the last one of the run."""
TYPE_SHIFT = 56
TRACK_SHIFT = 32

Role = Literal[
    "compute",
    "move-in",
    "move-out",
    "control",
    "host",
    "wait-dependency",
    "wait-queue",
    "wait-bandwidth",
    "wait-conflict",
    "wait-empty",
]
TrackKind = Literal["interval", "counter"]


@dataclass(frozen=True, slots=True)
class Kind:
    """Meaning of an interval: its name (an opcode or a stall cause), colour role, and a sentence.

    frames  intervals of this kind only enclose those of other tracks, where causes are searched for
    """

    id: int
    name: str
    role: Role
    doc: str = ""
    frames: bool = False


@dataclass(frozen=True, slots=True)
class Track:
    """One row of the timeline.

    unit  id of the unit that owns it, -1 if none; unit_name is the hierarchical name
    measure  what a counter counts ("bursts", "bytes"); empty for interval tracks
    maximum  largest possible value of a counter, 0 if unlimited
    """

    id: int
    name: str
    kind: TrackKind
    unit: int = -1
    measure: str = ""
    maximum: int = 0
    doc: str = ""


INTERVAL_DTYPE = np.dtype(
    [
        ("start", np.int64),
        ("end", np.int64),
        ("kind", np.int16),
        ("node", np.int32),
        ("instruction", np.int64),
    ]
)
"""Columns of one interval track, sorted by start."""

FLOW_DTYPE = np.dtype([("cycle", np.int64), ("source", np.int64), ("sink", np.int64)])
"""Producer instruction -> consumer instruction, at the cycle in which the consumer used it."""

CAUSE_DTYPE = np.dtype(
    [
        ("track", np.int32),
        ("cycle", np.int64),
        ("kind", np.int16),
        ("done", np.int64),
        ("source", np.int64),
    ]
)
"""A track could go on from `cycle`, because the source was done at `done` (-1: when its work on its track
ended). `source` is an instruction, -2 - t for the work of track t until `done`, or -1: nothing inside the
machine. `kind` tells what lies between `done` and `cycle`, and between `cycle` and the start of what
follows."""

LIFETIME_DTYPE = np.dtype(
    [
        ("memory", np.int16),
        ("address", np.int64),
        ("size_bytes", np.int64),
        ("start", np.int64),
        ("end", np.int64),
        ("tensor", np.int32),
        ("instruction", np.int64),
    ]
)
"""A range of a memory held one thing from `start` until `end`; `instruction` wrote it."""


@dataclass(frozen=True, slots=True)
class TraceSchema:
    """Names and meaning of the rows of one trace.
    Written into the bundle's manifest, so that a trace is self-contained.

    node_names    graph node id -> name; tensor_names likewise
    memory_names  memory id -> (name, size_bytes)
    frequency_hz  base clock
    """

    tracks: tuple[Track, ...]
    kinds: tuple[Kind, ...]
    node_names: tuple[str, ...]
    node_types: tuple[str, ...]
    tensor_names: tuple[str, ...]
    memory_names: tuple[tuple[str, int], ...]
    frequency_hz: float
    title: str = ""
    target: str = ""

    @property
    def num_kinds(self) -> int:
        """One more than the largest kind id: the length of a table by kind."""
        return max((kind.id for kind in self.kinds), default=-1) + 1
