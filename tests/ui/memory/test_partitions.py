"""Memories of partitions: layout, joined regions, the panel on a machine that has one."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QModelIndex, QPoint, QPointF, Qt
from pytestqt.qtbot import QtBot

from npuviz.debug.session import Session
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.program import Program
from npuviz.program.source import HasSource
from npuviz.sim.description import Memory
from npuviz.sim.machine import Region
from npuviz.ui.memory.layout import Painted, view_of
from npuviz.ui.memory.panel import SPEC, MemoryPanel
from npuviz.ui.memory.partitions import PartitionLayout, over_banks, paint_partitions
from npuviz.ui.memory.table import format_cell
from npuviz.workbench.opening import Opened, OpenOptions, open_file
from npuviz.workbench.selection import MemoryRange, Selection
from tests.targets.neuroncore.view.test_touched import KERNEL, line_of
from tests.toy.machine import ToyMachine
from tests.toy.program import ToySpec, make_program
from tests.ui.panel_stage import Stage

BANKS = 128
KIB = 1024
BANK_BYTES = 192 * KIB
TILE = Region(3 * BANK_BYTES + 4096, 512, 1, "tile", (64, 256), "bfloat16", True, 7, 5, banks=64)


def layout(width: int = 400, height: int = 256, bank_bytes: int = BANK_BYTES) -> PartitionLayout:
    return PartitionLayout(view_of(BANKS * bank_bytes, BANKS), width, height)


@given(st.integers(1, 900), st.integers(1, 700), st.data())
def test_a_pixel_of_a_box_has_an_address_in_its_range(width: int, height: int, data: st.DataObject) -> None:
    made = layout(width, height)
    address = data.draw(st.integers(0, BANKS * BANK_BYTES - 1))
    box = made.box(address, 1)
    assert box is not None
    assert 0 <= box.left < box.right <= width
    assert 0 <= box.top < box.bottom <= height
    found = made.address_at(box.left, box.top)
    assert found is not None
    assert found % BANK_BYTES <= address % BANK_BYTES < found % BANK_BYTES + 2 * made.bytes_per_pixel
    if height >= BANKS:
        assert found // BANK_BYTES == address // BANK_BYTES


@given(st.integers(1, 500), st.integers(1, 500))
def test_partitions_fill_the_height_without_gaps(width: int, height: int) -> None:
    made = layout(width, height)
    tops = [made.top_of_bank(bank) for bank in range(BANKS + 1)]
    assert tops[0] == 0
    assert tops[-1] == height
    assert tops == sorted(tops)


def test_a_linear_range_over_partitions_is_drawn_in_each() -> None:
    made = layout()
    pieces = made.pieces(2 * BANK_BYTES - 100, BANK_BYTES * 3)
    assert [(piece.top, piece.bottom) for piece in pieces] == [(2, 4), (4, 8), (8, 10)]
    assert pieces[1].right == made.width
    assert len(made.pieces(TILE.address, TILE.size_bytes, TILE.banks)) == 1


def test_paint_fills_the_rectangle_and_hatches() -> None:
    made = layout(192, 256)
    item = Painted(0, 48 * KIB, 5, banks=32)
    pixels = paint_partitions(made, [item, replace(item, address=64 * BANK_BYTES, is_hatched=True)], 1, 2, 9)
    assert set(pixels[:63, :47].ravel().tolist()) == {5}
    assert set(pixels[63, :47].tolist()) == {1}, "a line to the next partition's tile"
    assert set(pixels[64:128].ravel().tolist()) == {2}
    assert set(pixels[128:190, :47].ravel().tolist()) == {5, 9}


def test_regions_that_are_alike_are_joined() -> None:
    spread = [replace(TILE, address=bank * BANK_BYTES + 4096, banks=1) for bank in range(3, 67)] + [
        replace(TILE, address=90 * BANK_BYTES + 4096, banks=1, label="other")
    ]
    joined = over_banks(sorted(spread, key=lambda region: region.address), BANK_BYTES)
    assert [(region.address // BANK_BYTES, region.banks) for region in joined] == [(3, 64), (90, 1)]
    assert over_banks([TILE], BANK_BYTES) == [TILE]
    apart = [replace(TILE, banks=1), replace(TILE, address=TILE.address + 2 * BANK_BYTES, banks=1)]
    assert len(over_banks(apart, BANK_BYTES)) == 2, "a partition between them holds something else"


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int8", "float32", "float8_e4m3fn", "bool"])
def test_cells_are_read_in_every_type(dtype: str) -> None:
    kind = numpy_dtype(dtype)
    value = np.array([1], dtype=np.float32).astype(kind)
    assert float(format_cell(value.tobytes(), dtype)) == 1


class Partitioned(ToyMachine):
    """A toy with a memory of 128 partitions beside its own; its bytes say where they are."""

    regions_given: Sequence[Region] = (TILE,)

    def __init__(self, spec: ToySpec, program: Program) -> None:
        super().__init__(spec, program)
        partitions = Memory(2, "SBUF", "scratchpad", BANKS * BANK_BYTES, BANKS, "bfloat16")
        self._description = replace(self._description, memories=(*self._description.memories, partitions))

    def regions(self, memory: int) -> Sequence[Region]:
        return self.regions_given if memory == 2 else super().regions(memory)

    def read_memory(self, memory: int, address: int, size_bytes: int) -> bytes:
        if memory != 2:
            return super().read_memory(memory, address, size_bytes)
        assert 0 <= address <= address + size_bytes <= BANKS * BANK_BYTES
        bank, inside = divmod(address, BANK_BYTES)
        values = (bank * 1000 + np.arange(inside // 2, inside // 2 + size_bytes // 2 + 1) % 7).astype(
            numpy_dtype("bfloat16")
        )
        return values.tobytes()[inside % 2 : inside % 2 + size_bytes]


def value_at(bank: int, inside: int) -> str:
    value = np.array([bank * 1000 + inside // 2 % 7]).astype(numpy_dtype("bfloat16"))
    return f"{float(value[0]):.5g}"


@pytest.fixture
def stage(qtbot: QtBot) -> Iterator[Stage]:
    made = Stage(SPEC)
    spec = ToySpec()
    session = Session(Partitioned(spec, make_program(spec, {}, "toy")))
    made.context.model.show_opened(Opened(Path("p.toy"), "p", OpenOptions(), session=session))
    panel_of(made).chooser.setCurrentIndex(2)
    yield made
    made.close()


def panel_of(stage: Stage) -> MemoryPanel:
    assert isinstance(stage.panel, MemoryPanel)
    return stage.panel


def test_rows_of_the_table_are_partitions(stage: Stage) -> None:
    panel = panel_of(stage)
    contents = panel.table.contents
    assert (contents.banks, contents.dtype, contents.num_columns) == (64, "bfloat16", 256)
    assert panel.table.rowCount(QModelIndex()) == 64
    vertical = Qt.Orientation.Vertical
    assert [panel.table.headerData(row, vertical) for row in (0, 63)] == ["p3", "p66"]
    for row, column in ((0, 0), (0, 255), (17, 5), (63, 255)):
        assert panel.table.index(row, column).data() == value_at(3 + row, 4096 + 2 * column)
    assert "p3 \u2013 p66  0x1000 \u2013 0x1200  32 KiB" in panel.numbers.text()
    expected = np.concatenate([np.frombuffer(
        stage.session.machine.read_memory(2, bank * BANK_BYTES + 4096, 512), numpy_dtype("bfloat16")
    ).astype(np.float64) for bank in range(3, 67)])  # fmt: skip
    assert f"mean {expected.mean():.5g}" in panel.numbers.text()


def test_lines_are_wrapped_where_a_partition_is_long(stage: Stage) -> None:
    panel = panel_of(stage)
    panel.map.range_chosen.emit(0, 4096, 4)
    contents = panel.table.contents
    assert (contents.num_columns, contents.rows_of_bank, contents.num_rows) == (512, 4, 16)
    assert panel.table.headerData(5, Qt.Orientation.Vertical) == "p1 +0x400"
    assert panel.table.index(5, 3).data() == value_at(1, 0x400 + 6)
    assert stage.context.selection.current.memory == MemoryRange(2, 0, 4096, 4)


def test_pointing_names_partition_and_value(stage: Stage) -> None:
    panel = panel_of(stage)
    address = 20 * BANK_BYTES + 4096 + 40
    text = panel.map.tooltip(address)
    assert text.splitlines()[:3] == [
        "tile", f"partition 20, {4096 + 40:#x} = {value_at(20, 4096 + 40)}",
        "partitions 3 \u2013 66, 0x1000 \u2013 0x1200",
    ]  # fmt: skip
    assert panel.map.tooltip(100 * BANK_BYTES + 4096).splitlines() == ["partition 100, 0x1000", "free"]


def test_a_drag_chooses_a_rectangle(stage: Stage, qtbot: QtBot) -> None:
    panel = panel_of(stage)
    panel.resize(900, 900)
    area = [
        (x, y)
        for x in range(90, panel.map.width() - 10, 7)
        for y in range(8, panel.map.height() - 30, 3)
        if panel.map.region_at(panel.map.address_at(QPointF(x, y)) or 0) is not None
    ]
    (left, top), (right, bottom) = min(area), max(area)
    qtbot.mousePress(panel.map, Qt.MouseButton.LeftButton, pos=QPoint(right, bottom))
    qtbot.mouseMove(panel.map, QPoint(left + 5, top + 5))
    qtbot.mouseMove(panel.map, QPoint(left, top))
    qtbot.mouseRelease(panel.map, Qt.MouseButton.LeftButton, pos=QPoint(left, top))
    chosen = stage.context.selection.current.memory
    assert chosen is not None
    first = panel.map.address_at(QPointF(left, top))
    last = panel.map.address_at(QPointF(right, bottom))
    assert first is not None
    assert last is not None
    assert chosen.address == first
    assert chosen.banks == last // BANK_BYTES - first // BANK_BYTES + 1 > 20
    assert chosen.size_bytes > last % BANK_BYTES - first % BANK_BYTES


def test_a_region_is_chosen_as_a_whole(stage: Stage, qtbot: QtBot) -> None:
    panel = panel_of(stage)
    point = next(
        QPoint(x, y)
        for x in range(80, panel.map.width(), 3)
        for y in range(panel.map.height())
        if panel.map.region_at(panel.map.address_at(QPointF(x, y)) or 0) is not None
    )
    qtbot.mouseClick(panel.map, Qt.MouseButton.LeftButton, pos=point)
    chosen = stage.context.selection.current
    assert chosen.memory == MemoryRange(2, TILE.address, TILE.size_bytes, 64)
    assert chosen.instruction == 5
    assert "32 KiB of 24 MiB" in panel.usage.text()


def test_many_regions_of_single_partitions_are_drawn_in_time(stage: Stage) -> None:
    many = [
        replace(TILE, address=bank * BANK_BYTES + part * 512, tensor=part % 5, label=f"t{part}", banks=1)
        for bank in range(BANKS)
        for part in range(200)
    ]
    machine = stage.session.machine
    assert isinstance(machine, Partitioned)
    machine.regions_given = many
    panel = panel_of(stage)
    stage.moved()
    assert len(panel.map.regions) == 200
    assert all(region.banks == BANKS for region in panel.map.regions)
    colors = {panel.map.grab().toImage().pixelColor(x, 60).rgb() for x in range(90, 400)}
    assert len(colors) > 3


def test_every_type_offered_can_be_shown(stage: Stage) -> None:
    panel = panel_of(stage)
    for place in range(panel.dtype.count()):
        panel.dtype.setCurrentIndex(place)
        assert panel.table.index(0, 0).data() != ""
        panel.grab()


def test_typing_into_the_numbers_reads_nothing(stage: Stage, qtbot: QtBot) -> None:
    panel = panel_of(stage)
    panel.map.range_chosen.emit(0, BANKS * BANK_BYTES, 1)
    assert panel.table.rowCount(QModelIndex()) > 1_000_000
    asked: list[int] = []
    panel.table.data = lambda *_args: asked.append(1)  # pyright: ignore[reportAttributeAccessIssue]
    panel.view.setCurrentIndex(panel.table.index(0, 0))
    qtbot.keyClick(panel.view, Qt.Key.Key_W)
    assert len(asked) < 10_000


def test_millions_of_rows_are_never_selected_at_once(stage: Stage, qtbot: QtBot) -> None:
    panel = panel_of(stage)
    panel.map.range_chosen.emit(0, BANKS * BANK_BYTES, 1)
    panel.view.selectAll()
    qtbot.mouseClick(panel.view.horizontalHeader().viewport(), Qt.MouseButton.LeftButton, pos=QPoint(20, 8))
    chosen = panel.view.selectionModel().selection()
    assert sum(chosen.at(place).height() for place in range(chosen.count())) < 100


@pytest.mark.parametrize("whole", [True, False])
def test_what_an_instruction_touches_is_outlined(qtbot: QtBot, tmp_path: Path, whole: bool) -> None:
    (tmp_path / "kernel.py").write_text(KERNEL)
    stage = Stage(SPEC)
    panel = stage.panel
    assert isinstance(panel, MemoryPanel)
    stage.context.model.show_opened(
        open_file(tmp_path / "kernel.py", OpenOptions(settings={"shape.a": "128x16"}))
    )
    panel.on_session_changed()
    stage.session.run()
    stage.moved()
    listing = stage.session.program.listing
    assert isinstance(listing, HasSource)
    text = "nisa.memset" if whole else "nisa.tensor_copy"
    before = panel.map.grab().toImage()
    number = listing.ranges_of_line(0, line_of(text))[0][0]
    stage.context.selection.set(Selection(instruction=number))
    panel.on_selection_changed(stage.context.selection.current)
    touched = [each for each in panel.map.touched if each.is_written]
    assert len(touched) == (1 if whole else 4)
    assert panel.map.grab().toImage() != before
    place = touched[-1].address
    assert "the selected instruction writes this" in panel.map.tooltip(place)
    assert ("the selected instruction writes this" in panel.map.tooltip(place - 4)) is False
    stage.context.selection.set(Selection())
    panel.on_selection_changed(stage.context.selection.current)
    assert panel.map.touched == ()
    stage.close()
