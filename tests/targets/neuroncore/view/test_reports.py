"""Reports of a kernel: the bound, bytes of a DMA element by line, groups of products in PSUM."""

from pathlib import Path

import numpy as np

from npuviz.base.progress import NoProgress
from npuviz.base.units import THIN_SPACE, format_share
from npuviz.debug.console.debugger import TextDebugger
from npuviz.debug.session import Session
from npuviz.program.instruction import DetailTable, HasDetails
from npuviz.sim.bounds import highest
from npuviz.sim.stop import NO_STOPS
from npuviz.targets.neuroncore.isa import Engine, Opcode
from npuviz.targets.neuroncore.machine.machine import NeuronMachine
from npuviz.workbench.causes.explanation import explain_run, explanation_text
from npuviz.workbench.opening import OpenOptions
from tests.targets.neuroncore.nki.running import FIRST, loaded, random

KERNEL = (
    FIRST
    + """
@nki.jit
def kernel(a, b):
    out = nl.ndarray((128, 256), dtype=nl.float32, buffer=nl.shared_hbm)
    total = nl.zeros((128, 256), dtype=nl.float32, buffer=nl.psum)
    for k in nl.affine_range(4):
        x = nl.load(a[nl.ds(k * 128, 128), 0:128])
        y = nl.load(b[nl.ds(k * 128, 128), 0:256])
        total += nl.matmul(x, y, transpose_x=True)
    small = nl.load(a[0:128, 0:16])
    nl.store(out, nl.copy(total))
    nl.store(out[0:128, 0:16], small)
    return out
"""
)
LOAD, NARROW, PRODUCT = (
    next(n for n, line in enumerate(KERNEL.splitlines(), 1) if mark in line)
    for mark in ("y = nl.load", "small = nl.load", "total +=")
)


def machine(folder: Path) -> NeuronMachine:
    inputs = {"a": random(512, 128), "b": random(512, 256)}
    return NeuronMachine(*loaded(folder, KERNEL, inputs, preset="trn2"))


def table(found: NeuronMachine, title: str) -> DetailTable | None:
    return next((each for each in found.reports() if each.title.startswith(title)), None)


HALF = (
    FIRST
    + """
@nki.jit
def kernel(a):
    out = nl.ndarray((128, 1024), dtype=nl.float32, buffer=nl.shared_hbm)
    half = nl.load(a[0:64])
    nl.store(out[0:64], half)
    nl.store(out, nl.load(a))
    return out
"""
)


def ends_of_products(found: NeuronMachine) -> list[int]:
    log, code = found.log(), found._engine.tables.instructions
    mine = [int(time) for index, time in log if index >= 0 and code["opcode"][index] == Opcode.NC_MATMUL]
    return sorted(mine)


def test_groups_of_products_fill_up_and_complete(tmp_path: Path) -> None:
    done = machine(tmp_path)
    done.advance(1 << 62, NO_STOPS, None)
    ends = ends_of_products(done)
    assert len(ends) == 4
    assert table(done, "PSUM") is None, "nothing lies in PSUM at the end"
    now = machine(tmp_path)
    seen: list[tuple[str, str]] = []
    for end in ends:
        now.advance(end + 1, NO_STOPS, None)
        psum = table(now, "PSUM")
        assert psum is not None
        (row,) = psum.rows
        cells = dict(zip(psum.columns, row, strict=True))
        assert (cells["Tile"], cells["Opened at"]) == ("total", f"kernel.py:{PRODUCT}")
        seen.append((cells["Products"], cells["State"].split(":")[0]))
    assert seen == [("1 of 4", "open"), ("2 of 4", "open"), ("3 of 4", "open"), ("4 of 4", "complete")]


def number(text: str) -> int:
    return int(text.replace(THIN_SPACE, ""))


def test_engines_whose_partitions_a_transfer_has_none_of_are_idle(tmp_path: Path) -> None:
    found = NeuronMachine(*loaded(tmp_path, HALF, {"a": random(128, 1024)}, preset="trn2"))
    found.advance(1 << 62, NO_STOPS, None)
    dma = table(found, "DMA transfers")
    assert dma is not None
    rows = [dict(zip(dma.columns, row, strict=True)) for row in dma.rows]
    shares = {number(each["Bytes"]): int(each["Of peak rate"].rstrip("%")) for each in rows}
    half, whole = shares[64 * 4096], shares[2 * 128 * 4096]  # the last line loads and stores
    assert whole > 90
    assert abs(half - whole / 2) <= 1


def test_transfers_by_line_mark_small_elements(tmp_path: Path) -> None:
    found = machine(tmp_path)
    assert table(found, "DMA transfers") is None
    found.advance(1 << 62, NO_STOPS, None)
    dma = table(found, "DMA transfers")
    assert dma is not None
    rows = {row[0]: dict(zip(dma.columns, row, strict=True)) for row in dma.rows}
    wide, narrow = rows[f"kernel.py:{LOAD}"], rows[f"kernel.py:{NARROW}"]
    assert (wide["Transfers"], wide["Elements"], wide["Element bytes"]) == ("4", "512", "1024")
    assert (number(narrow["Bytes"]), narrow["Element bytes"]) == (8192, "64 (below 512)")
    shares = [int(each["Of peak rate"].rstrip("%")) for each in (wide, narrow)]
    assert 100 >= shares[0] > 4 * shares[1] > 0
    trigger = found.program.listing
    assert isinstance(trigger, HasDetails)
    index = next(i for i in range(len(trigger)) if found._engine.tables.transfer_of[i] >= 0)
    (table_of,) = [each for each in trigger.details_of(index) if each.title == "DMA transfer"]
    fields = {row[0]: row[1] for row in table_of.rows}
    assert "bytes" in fields["elements"]
    assert fields["efficiency"].endswith("peak rate")


def test_no_bound_is_above_the_run_and_the_highest_leads(tmp_path: Path) -> None:
    found = machine(tmp_path)
    assert found.bounds() == []
    found.advance(1 << 62, NO_STOPS, None)
    bounds = {each.name: each for each in found.bounds()}
    assert all(0 < each.cycles <= found.cycle for each in bounds.values())
    busy = {name: cycles for name, cycles, _ in found.summary().units}
    assert bounds["Core[0].PE"].cycles == busy["Core[0].PE"]
    assert bounds["PE array"].cycles == 4 * 128 * 128 * 256 / (128 * 128)
    moved = 4 * 128 * (128 + 256) * 4 + 128 * 16 * 4 * 2 + 128 * 256 * 4
    spec = found._engine.spec
    rate = spec.dma_peak_bytes_per_ns * 1e9 / spec.base_hz * spec.num_dma_engines
    # Each ring ends with a semaphore of 4 bytes.
    assert moved / rate <= bounds["DMA, full rate"].cycles <= 1.01 * moved / rate
    roof = table(found, "Roofline")
    top = highest(found.bounds())
    assert roof is not None
    assert top is not None
    assert roof.rows[0][0] == top.name
    assert f"{format_share(top.cycles / found.cycle, 0)} of it by {top.name}" in roof.title
    assert int(Engine.PE) == bounds["PE array"].unit


NESTED = (
    FIRST
    + """
@nki.jit
def kernel(a, b):
    out = nl.ndarray((512, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    for i in nl.affine_range(4):
        x = nl.load(a[nl.ds(i * 128, 128), 0:128])
        for k in nl.sequential_range(2):
            y = nisa.activation(op=nl.exp, data=nl.load(b[nl.ds(i * 128, 128), nl.ds(k * 128, 128)]))
            nl.store(out[nl.ds(i * 128, 128), nl.ds(k * 128, 128)], nisa.activation(op=nl.exp, data=y))
        nl.store(out[nl.ds(i * 128, 128), 256:384], nl.add(x, x))
    return out
"""
)


def test_loops_have_bounds_of_their_own(tmp_path: Path) -> None:
    inputs = {"a": random(512, 128), "b": random(512, 256)}
    found = NeuronMachine(*loaded(tmp_path, NESTED, inputs, preset="trn1"))
    assert table(found, "Bounds of loops") is None
    found.advance(1 << 62, NO_STOPS, None)
    loops = table(found, "Bounds of loops")
    assert loops is not None
    lines = NESTED.splitlines()
    outer, inner = loops.rows
    for row, name, turns in ((outer, "i", "4"), (inner, "  k", "8")):
        line = next(n for n, text in enumerate(lines, 1) if text.strip().startswith(f"for {name.strip()} in"))
        assert row[:3] == (name, f"kernel.py:{line}", turns)
    # All activations are in the inner loop, the addition is not.
    scalar = {row[0].strip(): dict(part.rsplit(" ", 1) for part in row[7].split(", ")) for row in loops.rows}
    assert "DVE" in scalar["i"]
    assert "DVE" not in scalar["k"]
    cycles, least = ([int("".join(filter(str.isdigit, row[at]))) for row in loops.rows] for at in (3, 4))
    assert cycles[1] <= cycles[0] <= found.cycle
    assert all(0 < bound <= taken for bound, taken in zip(least, cycles, strict=True))


def test_explain_says_what_kept_the_run_from_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "kernel.py"
    path.write_text(KERNEL, encoding="utf-8")
    for name, rows in (("a", random(512, 128)), ("b", random(512, 256))):
        np.save(tmp_path / f"{name}.npy", rows)
    inputs = {name: np.load(tmp_path / f"{name}.npy") for name in ("a", "b")}
    found = explain_run(path, OpenOptions(inputs=inputs), (False, ()), NoProgress())
    bound = found["bound"]
    assert 0 < bound["of_the_run"] < 1
    assert sum(each["cycles"] for each in bound["lost"]) <= found["cycles"] - 1
    assert bound["lost"][0]["what"]
    assert f"at least {bound['cycles']} cycles" in explanation_text(found)


def test_report_command_lists_and_shows(tmp_path: Path) -> None:
    import io

    session = Session(machine(tmp_path))
    out = io.StringIO()
    debugger = TextDebugger(session, out)
    debugger.execute("report")
    titles = [line for line in out.getvalue().splitlines()[1:] if line.strip()]
    assert len(titles) >= 3
    assert all(line.split()[-1] == "0" for line in titles), "no table has rows yet"
    session.run()
    debugger.execute("report")
    debugger.execute("report dma")
    assert "Roofline" in out.getvalue()
    assert "64 (below 512)" in out.getvalue()
    out.truncate(0)
    debugger.execute("report nonsense")
    assert "no report" in out.getvalue()
