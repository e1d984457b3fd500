"""Broken NeuronCore programs: compiled ones with a wait, an instruction or an address changed."""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from npuviz.program.instruction import HasDependencies
from npuviz.sim.machine import Machine
from npuviz.targets.neuroncore.isa import DST, Condition, Opcode, Space, Update
from npuviz.targets.neuroncore.kernels import records as sk
from npuviz.targets.neuroncore.machine.machine import NeuronMachine
from npuviz.targets.neuroncore.machine.payload import Payload
from npuviz.targets.neuroncore.machine.synchronization import link
from npuviz.targets.neuroncore.tables import Tables
from npuviz.workbench.opening import OpenOptions, open_file
from tests.seeded.seed import Seed, sample

MACHINE = "neuroncore"
ORDER = frozenset({"early-read", "early-overwrite", "unordered-writes", "unwritten"})
_WAITS = {"flow": "a wait for a write removed", "anti": "a wait for a last read removed",
          "output": "a wait for an earlier write removed"}  # fmt: skip
Change = Callable[[np.ndarray], None]


def _base(name: str = "tiny_cnn") -> NeuronMachine:
    machine = sample(MACHINE, name)
    assert isinstance(machine, NeuronMachine)
    return machine


def _tables(machine: NeuronMachine) -> Tables:
    payload = machine.program.payload
    assert isinstance(payload, Payload)
    return payload.tables


def _with(model: str, change: Change) -> Callable[[], Machine]:
    """A machine whose instructions are changed."""
    return lambda: changed(_base(model), change)


def changed(base: Machine, change: Change) -> NeuronMachine:
    """A fresh machine with the program of another, its instructions changed."""
    assert isinstance(base, NeuronMachine)
    payload = base.program.payload
    assert isinstance(payload, Payload)
    code = payload.tables.instructions.copy()
    change(code)
    tables = replace(payload.tables, instructions=code)
    return NeuronMachine(base._engine.spec, replace(base.program, payload=replace(payload, tables=tables)))


def seeds() -> Iterator[Seed]:
    """All of them."""
    for model in ("tiny_cnn", "tiny_transformer"):
        yield from _waits(model)
        yield from _skipped(model)
    yield from _others()
    yield from _kernels()


def _waits(model: str) -> Iterator[Seed]:
    """The first wait of each pair of engines and kind of dependency is left out.

    A wait is taken whose instruction has no other, and whose engine has not waited for the same or a later
    value before: nothing else orders the two.
    """
    machine = _base(model)
    tables, listing = _tables(machine), machine.program.listing
    assert isinstance(listing, HasDependencies)
    links = link(machine._engine.spec, tables)
    seen: set[tuple[int, int, str]] = set()
    for index in range(len(tables.instructions)):
        first, count = int(links.wait_first[index]), int(links.wait_count[index])
        if count != 1:
            continue
        producer = int(links.waits[first, sk.WAIT.producer])
        kinds = [d.kind for d in listing.dependencies_of(index) if d.sink == index and d.source == producer]
        if producer < 0 or not kinds or kinds[0] not in _WAITS or not _shares(machine, producer, index):
            continue
        units = listing.units_of(np.array([producer, index])).tolist()
        key = (*units, kinds[0])
        # An engine ends its instructions in order, so that a trigger comes after what it did before anyway.
        is_own_trigger = tables.transfer_of[index] >= 0 and units[0] == units[1]
        if key in seen or is_own_trigger:
            continue
        seen.add(key)

        def change(code: np.ndarray, index: int = index) -> None:
            code["waits"]["used"][index] = 0

        yield Seed(f"{model}: wait of {index} for {producer}", MACHINE, _WAITS[kinds[0]], ORDER,
                   _with(model, change))  # fmt: skip


def _shares(machine: NeuronMachine, source: int, sink: int) -> bool:
    """Whether two instructions touch the same bytes, so that the wait is for just these."""
    listing = machine.program.listing
    a, b = listing.describe(source), listing.describe(sink)

    def meets(first: object, second: object) -> bool:
        return any(
            x.memory == y.memory
            and x.address < y.address + y.size_bytes
            and y.address < x.address + x.size_bytes
            for x in first  # type: ignore[attr-defined]
            for y in second  # type: ignore[attr-defined]
        )

    return meets(a.writes, b.reads) or meets(a.reads, b.writes) or meets(a.writes, b.writes)


def _skipped(model: str) -> Iterator[Seed]:
    """The first instruction of an engine that writes something is skipped; it still counts its semaphores."""
    code = _tables(_base(model)).instructions
    for opcode in (Opcode.ACTIVATION, Opcode.TENSOR_COPY, Opcode.MEMSET, Opcode.NC_TRANSPOSE):
        mine = np.flatnonzero(code["opcode"] == opcode)
        if len(mine):

            def change(code: np.ndarray, index: int = int(mine[0])) -> None:
                code["opcode"][index] = Opcode.NOP
                code["operands"]["space"][index] = 0

            yield Seed(f"{model}: {opcode.name.lower()} {mine[0]} skipped", MACHINE, "an uninitialised read",
                       ORDER, _with(model, change))  # fmt: skip


def _others() -> Iterator[Seed]:
    code = _tables(_base()).instructions
    space = code["operands"]["space"]
    writes = np.flatnonzero((space[:, DST] == Space.SBUF) & (code["opcode"] != Opcode.MEMSET))
    first, last = int(writes[0]), int(writes[-1])

    def beyond(code: np.ndarray) -> None:
        code["operands"]["address"][first, DST] = _base()._engine.spec.sbuf_partition_bytes - 4

    def unread(code: np.ndarray) -> None:
        code["operands"]["address"][last, DST] = _base()._engine.spec.sbuf_partition_bytes // 2 + 4096

    def never_counted(code: np.ndarray) -> None:
        counts = np.flatnonzero((code["updates"]["kind"] != Update.NONE).any(axis=1))
        code["updates"]["kind"][counts[0]] = Update.NONE

    def one_too_many(code: np.ndarray) -> None:
        waits = np.flatnonzero((code["waits"]["used"] == 1).any(axis=1))
        code["waits"]["value"][waits[-1]] += 1 << 20

    def one_too_few(code: np.ndarray) -> None:
        waits = code["waits"]
        mine = (waits["used"] == 1) & (waits["condition"] == Condition.GE) & (waits["value"] > 1)
        waits["value"][np.nonzero(mine)] -= 1

    yield Seed("a tile behind its partition", MACHINE, "out of bounds", frozenset({"fault", "out-of-bounds"}),
               _with("tiny_cnn", beyond))  # fmt: skip
    yield Seed("a result elsewhere", MACHINE, "a dead store", frozenset({"dead-store"}),
               _with("tiny_cnn", unread))  # fmt: skip
    yield Seed("a semaphore never counted", MACHINE, "deadlock", frozenset({"deadlock"}),
               _with("tiny_cnn", never_counted))  # fmt: skip
    yield Seed("a wait for more than is counted", MACHINE, "deadlock", frozenset({"deadlock"}),
               _with("tiny_cnn", one_too_many))  # fmt: skip
    yield Seed("waits for one less", MACHINE, "a semaphore count that is too low", ORDER,
               _with("tiny_cnn", one_too_few))  # fmt: skip


HALF = """
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(a):
    out = nl.ndarray((256, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    nisa.dma_copy(dst=out[0:128, :], src=tile)
    return out
"""


NEVER_BEGUN = """
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(a):
    out = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    total = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    tile = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add)
    nisa.dma_copy(dst=out, src=total)
    return out
"""


def kernel(text: str) -> Machine:
    """The machine of a kernel whose parameter `a` has the shape (128, 64)."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.py"
        path.write_text(text)
        session = open_file(path, OpenOptions(target=MACHINE, settings={"shape.a": "128x64"})).session
        assert session is not None
        return session.machine


def _kernels() -> Iterator[Seed]:
    """An output that is written in half, and a sum that nobody began."""
    yield Seed("half of an output", MACHINE, "an output left out", frozenset({"incomplete"}),
               lambda: kernel(HALF))  # fmt: skip
    yield Seed("a sum that nobody began", MACHINE, "an uninitialised read", frozenset({"unwritten"}),
               lambda: kernel(NEVER_BEGUN))  # fmt: skip
