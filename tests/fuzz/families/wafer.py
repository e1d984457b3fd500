"""Compiled wafer programs and recorded runs: tables changed one by one, with a digest that is right again.

An input is an archive with the two files of a compiled folder.
"""

import io
import json
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from npuviz.program.source import HasSource
from npuviz.sim.fabric import glance_at
from npuviz.sim.stop import NO_STOPS
from npuviz.targets.wavelet import isa
from npuviz.targets.wavelet.kernels import isa as k
from npuviz.targets.wavelet.load.archive import DOCUMENT, _digest
from npuviz.targets.wavelet.load.compiled import RUN_FILE, WAFER_FILE, load_wafer, save_run, save_wafer
from npuviz.targets.wavelet.load.program import make_program
from npuviz.targets.wavelet.machine.machine import WaveletMachine
from npuviz.targets.wavelet.wafer import (
    HOST_COPY_OUT,
    HOST_LAUNCH,
    HOST_STREAM_IN,
    DsrLoad,
    Fifo,
    HostCommand,
    PeProgram,
    QueueBinding,
    Wafer,
)
from tests.fuzz.containers import packed, spread, unpacked
from tests.fuzz.driving import CYCLES, drive, warm_up
from tests.fuzz.mutations import NUMBERS, change_bytes, change_text, change_tree
from tests.targets.wavelet.assembler import EAST, RAMP, WEST, Assembler, fabin, fabout, mem, route, wafer
from tests.targets.wavelet.samples import compiled

SUFFIX = ".zip"
SHARE = 60
_SHAPES = [[1, 2, 2, 2, 1, 1, 1, 0], [0, 8, 0, 0, 0, 0, 0, 0]]


def seeds() -> list[bytes]:
    """Two compiled samples, one with a recorded run; a program with one of everything, for both machines."""
    region = (0, 0, 2, 1)
    everything = [
        HostCommand(HOST_LAUNCH, "go", region),
        HostCommand(HOST_STREAM_IN, 6, region, 2, np.array([[[1, 2], [3, 4]]], np.uint32)),
        HostCommand(HOST_COPY_OUT, "x", region, 2),
    ]
    return [
        _files(compiled("heat", "wse3", 2, 2, cells=2)),
        _files(compiled("row_sum", "wse2", 2, 1), [HostCommand(HOST_LAUNCH, "sum", region)]),
        _files(_everything("wse3"), everything),
        _files(_everything("wse2"), everything),
    ]


def _files(tables: Wafer, commands: list[HostCommand] | None = None) -> bytes:
    """The files of a compiled folder, without the long texts of its sources."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_wafer(folder, replace(tables, texts=tuple(text[:200] for text in tables.texts)))
        if commands:
            save_run(folder, commands, "run.py")
        kept = [path for path in (folder / WAFER_FILE, folder / RUN_FILE) if path.exists()]
        return packed({path.name: path.read_bytes() for path in kept})


def _everything(arch: str) -> Wafer:
    """Two PEs that send each other words, with FIFOs, DSRs, @map, filters, handlers, rotations."""
    channels = {
        (0, 0): (route(5, RAMP, EAST), route(6, WEST, RAMP)),
        (1, 0): (route(5, WEST, RAMP, filter={"kind": 0, "count_data": 1, "max_counter": 9, "limit1": 9}),),
    }
    return wafer([_sender(), _taker()], [[0, 1]], channels, arch)


def _sender() -> PeProgram:
    a = Assembler()
    place = a.variable("x", np.arange(8, dtype=np.uint32))
    a.others["shapes"] = _SHAPES
    a.function("go", export=())
    a.li(1, mem(place, 4))
    a.li(2, fabout(2, 4))
    a.dsd("mov32", "ds", (2, 1))
    a.li(3, isa.pack(k.KIND_FIFO, base=0))
    a.dsd("mov16", "ds", (3, 1), **{"async": 1})
    a.dsd("mov16", "ds", (1, 3))
    a.li(4, isa.pack(k.KIND_MEM4D, base=place, stride=0))
    a.dsd("fadds", "dss", (4, 4, 1))
    a.li(5, isa.pack(k.KIND_CIRCBUF, base=place, extent=4, stride=1))
    a.emit("dsr_load", 0, 1, 5, imm=a.operation("mov16", activate=-1))
    a.li(6, isa.pack(k.KIND_DSR, dsr_file=0, dsr_id=1))
    a.dsd("fmovs", "dv", (6, 7))
    a.emit("map_open", 0, 1, type=k.T_U32)
    row = a.emit("map_test", 1)
    a.emit("map_read", 8, 0, type=k.T_U32)
    a.emit("map_write", 8, 0, type=k.T_U32)
    a.emit("jmp", imm=row)
    a.jump_here(row)
    a.li(9, 1)
    a.emit("calli", 10, 1, 1, aux=9)
    for name in ("print", "route_toggle", "queue_status", "fifo_read_length", "tsc_read", "random16"):
        a.sys(name, 11, 9, 9, 9)
    a.emit("stx", 11, -1, 9, imm=place, aux=4, type=k.T_U32)
    a.unblock()
    a.ret()
    a.function("helper", num_regs=4, frame=16)
    a.emit("math", 1, 0, imm=k.M_SQRT, type=k.T_F32)
    a.emit("div", 1, 1, 0, type=k.T_I32)
    a.ret(1)
    a.task("tick", k.ID_LOCAL, 9)
    a.ret()
    fifo = (Fifo("f", place, 16, 1, 1, 9, 9),)
    dsrs = (DsrLoad(1, 2, mem(place, 4), 0),)
    return a.program(
        1024, fifos=fifo, dsrs=dsrs, queues=(QueueBinding(2, True, 5), QueueBinding(3, False, 6))
    )


def _taker() -> PeProgram:
    a = Assembler()
    place = a.variable("x", np.zeros(8, np.uint32))
    a.function("go", export=())
    a.li(1, fabin(4, 2))
    a.li(2, mem(place, 2))
    a.dsd("fmacs", "dssv", (2, 2, 1, 3), activate=4, **{"async": 1})
    a.emit("block", 5, aux=k.ID_LOCAL)
    a.unblock()
    a.ret()
    a.task("take", k.ID_DATA, 4, (k.T_U16, k.T_U16))
    a.emit("activate", 0)
    a.ret()
    a.task("rule", k.ID_CONTROL, 5, (k.T_U16,))
    a.sys("switch_set", -1, 0, 0, 0)
    a.ret()
    bound = (QueueBinding(4, False, 5), QueueBinding(2, True, 7))
    return a.program(
        1024, queues=bound, rotations=((4, 1, 2, 3, 0),), teardown_handlers={5: 2},
        empty_handlers={(2, True): 2},
        channels=(route(7, RAMP, RAMP | WEST),), priorities=((k.ID_LOCAL, 9, 1),), blocked=((k.ID_LOCAL, 9),),
    )  # fmt: skip


# --- changes -----------------------------------------------------------------------------------------------


def mutate(data: bytes, rng: Random) -> bytes:
    """Mostly a few words of the tables; sometimes the document, a header, or bytes of the archive."""
    files = unpacked(data)
    if not files or rng.random() < 0.04:
        return change_bytes(data, rng)
    name = RUN_FILE if RUN_FILE in files and rng.random() < 0.25 else rng.choice(sorted(files))
    if rng.random() < 0.05:
        return packed({**files, name: change_bytes(files[name], rng)})
    members = unpacked(files[name])
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        _change_member(members, rng)
    is_right = rng.random() < 0.97
    digest = _digest(members).encode() if is_right else b"0" * 64
    return packed({**files, name: packed(members, digest)})


def _change_member(members: dict[str, bytes], rng: Random) -> None:
    arrays = [name for name in members if name.endswith(".npy")]
    if DOCUMENT in members and (not arrays or rng.random() < 0.45):
        members[DOCUMENT] = _document(members[DOCUMENT], rng)
    elif arrays:
        name = rng.choice(arrays)
        members[name] = changed_array(members[name], rng)


def _document(data: bytes, rng: Random) -> bytes:
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return change_bytes(data, rng)
    if rng.random() < 0.5 and _change_number(tree, rng):
        return json.dumps(tree).encode()
    if rng.random() < 0.05:
        return change_text(data.decode(errors="replace"), rng).encode(errors="replace")
    return json.dumps(change_tree(tree, rng)).encode(errors="surrogatepass")


def _change_number(tree: Any, rng: Random) -> bool:
    """Give one of the numbers another value that may be right."""
    places: list[tuple[Any, Any]] = []
    todo = [tree] if isinstance(tree, list | dict) else []
    while todo:
        here = todo.pop()
        pairs = here.items() if isinstance(here, dict) else enumerate(here)
        for key, value in list(pairs):
            if isinstance(value, list | dict):
                todo.append(value)
            elif type(value) is int:
                places.append((here, key))
    if not places:
        return False
    here, key = rng.choice(places)
    here[key] = rng.choice(
        (here[key] + 1, here[key] - 1, rng.randrange(8), rng.randrange(64), rng.choice(NUMBERS), -1)
    )
    return True


def changed_array(data: bytes, rng: Random) -> bytes:
    """A .npy file with one change: of its header, its length, a word, or any byte of what are no words."""
    try:
        array = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
    except Exception:
        return change_bytes(data, rng)
    if array.dtype.kind not in "iub":
        # What an earlier change of the header made of it.
        return change_bytes(data, rng)
    if rng.random() < 0.04:
        end = data.find(b"\n")
        header = change_text(data[10:end].decode("latin1"), rng).encode("latin1", errors="replace")
        return data[:8] + (len(header) % (1 << 16)).to_bytes(2, "little") + header + data[end:]
    if rng.random() < 0.04:
        array = array[: rng.randrange(len(array) + 1)] if array.ndim else array
    elif array.ndim == 2 and array.shape[1] == k.CODE_WORDS and array.shape[0]:
        _change_code(array, rng)
    elif array.size:
        _change_element(array, rng)
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=False)
    return stream.getvalue()


def _change_element(array: np.ndarray, rng: Random) -> None:
    flat = array.reshape(-1)
    at = rng.randrange(flat.size)
    value = rng.choice(
        (int(flat[rng.randrange(flat.size)]), rng.randrange(32), rng.choice(NUMBERS), -1, rng.getrandbits(64))
    )
    flat[at] = np.array(value % (1 << 64), np.uint64).astype(array.dtype)


def _change_code(code: np.ndarray, rng: Random) -> None:
    """A column of an instruction takes what it has elsewhere, a small number, or a made-up descriptor."""
    row, column = rng.randrange(len(code)), rng.randrange(k.CODE_WORDS - 1)
    other = code[rng.randrange(len(code))]
    kind = rng.randrange(8)
    if kind == 0:
        code[row] = other
    elif kind == 1:
        code[row, k.C_OP] = rng.randrange(80)
    elif kind == 2:
        _change_element(code, rng)
    elif kind < 5:
        words = np.flatnonzero(code[:, k.C_OP] == k.OP_LI)
        if len(words):
            code[rng.choice(words.tolist()), k.C_IMM] = _descriptor(rng)
    elif kind == 5:
        code[row, column] = rng.randrange(-1, 16)
    else:
        code[row, column] = other[column]


def _descriptor(rng: Random) -> int:
    """A word whose fields are small or full."""
    word = 0
    for place in isa.FIELDS.values():
        value = rng.choice((0, 0, 0, 1, 2, rng.randrange(8), rng.randrange(1024), place.mask))
        word |= (value & place.mask) << place.shift
    word = (word & ~7) | rng.randrange(8)
    return _signed(rng.choice((word, word, word, rng.choice(NUMBERS), rng.getrandbits(64))))


def _signed(word: int) -> int:
    return (word + (1 << 63)) % (1 << 64) - (1 << 63)


# --- attempts ----------------------------------------------------------------------------------------------


def prepare() -> None:
    """Have the kernels."""
    warm_up("wavelet")


def attempt(path: Path) -> object:
    """Open the folder as npuviz does; then launch what it exports, and look at everything."""
    folder = path.with_name("compiled")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    spread(unpacked(path.read_bytes()), folder)
    (folder / WAFER_FILE).touch()
    if (folder / RUN_FILE).exists():
        drive(folder)
    return _launch(load_wafer(folder))


def _launch(tables: Wafer) -> None:
    commands = [
        HostCommand(HOST_LAUNCH, export.name, (0, 0, 0, 0), data=np.zeros(len(export.arguments), np.uint32))
        for export in {e.name: e for program in tables.programs for e in program.exports}.values()
        if export.function >= 0
    ]
    machine = WaveletMachine(*make_program(tables, commands[:8]))
    for until in (CYCLES // 4, CYCLES):
        machine.advance(until, NO_STOPS, None)
        look(machine)


def look(machine: WaveletMachine) -> None:
    """Ask a machine everything that panels ask it."""
    fabric, area = machine.fabric, machine.fabric.program
    asked: list[object] = [machine.hazards(), machine.reports(), machine.summary(), machine.digest()]
    asked += [machine.unit_states(), machine.activities(), machine.next_instructions()]
    asked += [machine.element_states(fabric.whole), machine.link_loads(fabric.whole)]
    for column in range(area.column, area.column + min(area.columns, 4)):
        for row in range(area.row, area.row + min(area.rows, 4)):
            element = row * fabric.columns + column
            asked += [glance_at(machine, column, row), machine.element_details(column, row)]
            asked += [machine.frames(element), machine.globals_of(element)]
    listing = machine.program.listing
    assert isinstance(listing, HasSource)
    for index in range(0, len(listing), max(1, len(listing) // 64)):
        asked += [listing.describe(index), listing.place_of(index)]
    asked += [listing.sources, listing.entries]
