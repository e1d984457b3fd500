"""Hypothesis strategies for instructions and transfers as the encoding allows them."""

import numpy as np
from hypothesis import strategies as st

from npuviz.targets.neuroncore.isa import (
    DTYPE_NAMES,
    INSTRUCTION_DTYPE,
    Condition,
    Engine,
    Opcode,
    Space,
    Update,
)
from npuviz.targets.neuroncore.neff.encoding import ACCESS_DTYPES, OPS, TRIGGERS
from npuviz.targets.neuroncore.tables import Access, Descriptor, Transfer

words = st.integers(0, 0xFFFFFFFF)
halves = st.integers(0, 0xFFFF)
octets = st.integers(0, 255)


@st.composite
def instructions(draw, engine: Engine):
    """A record array of one; fields that mean nothing are zero."""
    found = np.zeros(1, INSTRUCTION_DTYPE)
    found["opcode"] = draw(st.sampled_from(Opcode))
    found["engine"] = engine
    found["flags"] = draw(st.sampled_from([0, 1, 16, 18, 64, 0xFFFF]) | halves)
    for field in ("op0", "op1", "cmd"):
        found[field] = draw(st.integers(0, 40) | octets)
    found["imm"].view(np.uint32)[0] = draw(
        st.lists(words | st.sampled_from([0, 0x3F800000, 0x80000000, 0x7FC00000]), min_size=3, max_size=3)
    )
    found["id"] = draw(st.just(0) | words)
    for wait in range(3):
        if draw(st.booleans()):
            record = found["waits"][0][wait : wait + 1]
            record["used"] = draw(st.integers(1, 2))
            record["semaphore"], record["value"] = draw(halves), draw(words)
            record["condition"] = draw(st.sampled_from(Condition))
    for update in range(2):
        kind = draw(st.sampled_from(Update))
        if kind != Update.NONE:
            record = found["updates"][0][update : update + 1]
            record["kind"], record["semaphore"] = kind, draw(halves)
            record["when"], record["value"] = draw(st.integers(0, 1)), draw(st.just(0) | words)
    for position in range(6):
        if draw(st.booleans()):
            _operand(draw, found["operands"][0][position : position + 1])
    return found


def _operand(draw, record):
    record["space"] = draw(st.sampled_from([Space.SBUF, Space.PSUM, Space.PATTERN]))
    record["dtype"] = draw(st.integers(0, len(DTYPE_NAMES) - 1))
    first = draw(st.integers(0, 127))
    record["partition"], record["partitions"] = first, draw(st.integers(1, 128 - first))
    record["address"] = draw(words)
    dims = draw(st.lists(st.tuples(st.integers(1, 65535), st.integers(-32768, 32767)), max_size=4))
    dims = [(1, 0)] * (4 - len(dims)) + dims
    record["sizes"], record["steps"] = [size for size, _ in dims], [step for _, step in dims]
    if draw(st.integers(0, 9)) == 0:
        record["reserved"] = list(draw(st.binary(min_size=8, max_size=8)))


@st.composite
def accesses(draw):
    rank = draw(st.integers(1, 4))
    longs = st.integers(-(1 << 63), (1 << 63) - 1)
    return Access(
        draw(st.integers(-1, 1000)),
        draw(longs),
        tuple(draw(st.lists(longs, min_size=rank, max_size=rank))),
        tuple(draw(st.lists(words, min_size=rank, max_size=rank))),
        draw(st.sampled_from(ACCESS_DTYPES)),
    )


@st.composite
def descriptors(draw):
    floats = st.floats(allow_nan=False)
    return Descriptor(
        draw(st.sampled_from(OPS)),
        draw(accesses()),
        tuple(draw(st.lists(accesses(), min_size=1, max_size=3))),
        tuple(draw(st.lists(floats, max_size=16))),
        draw(st.none() | floats),
        tuple(draw(st.lists(words, max_size=4))),
        draw(words),
    )


@st.composite
def transfers(draw, number: int, core: int = 0):
    return Transfer(
        number,
        core,
        draw(words),
        tuple(draw(st.lists(descriptors(), max_size=2))),
        draw(st.sampled_from(TRIGGERS)),
        draw(st.integers(-1, 0xFFFF)),
        draw(st.integers(-1, 0xFFFF)),
        tuple(draw(st.lists(halves, max_size=8))),
        draw(st.booleans()),
    )


@st.composite
def programs(draw, engine: Engine = Engine.POOL):
    """(instructions, transfers by instruction)."""
    records = draw(st.lists(instructions(engine), max_size=4))
    joined = np.concatenate(records) if records else np.zeros(0, INSTRUCTION_DTYPE)
    copies = np.flatnonzero(joined["opcode"] == Opcode.DMA_COPY).tolist()
    return joined, {index: draw(transfers(int(joined["id"][index]))) for index in copies}
