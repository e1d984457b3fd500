"""Tasks as the debugger shows them: lines, operands, registers with what changed since two tasks ago."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.rk3588_streams import matmul_task
from npuviz.formats.rk3588.conv_words import conv_task_words
from npuviz.targets.rk3588.load.placed_tasks import PlacedTask, make_tasks
from npuviz.targets.rk3588.spec import RknnSpec
from npuviz.targets.rk3588.tables import Buffer, HostCall, Tables
from npuviz.targets.rk3588.task.work import Work
from npuviz.targets.rk3588.view.description import PC, host_unit, unit_of
from npuviz.targets.rk3588.view.listing import RknnListing
from tests.targets.rk3588.machine_cases import BIAS, CONVOLUTION, NO_EW, OUTPUT, task_of

SPEC = RknnSpec(cores=2)
ADDRESSES = (0x1000_0000, 0x2000_0000, 0x3000_0000)


def products() -> RknnListing:
    """Four products in a chain: full streams, and from the third on only what changes."""
    full = matmul_task(4, 64, 16, "float16", addresses=ADDRESSES)
    first = conv_task_words(full, address=0x4000_0000)
    moved = conv_task_words(replace(full, output_address=0x3000_1000), address=0x4000_0400)
    short = replace(moved, words=(first.words[0], *(w for w in moved.words if w.offset == 0x4020)))
    streams = [
        replace(each, address=0x4000_0000 + 1024 * n) for n, each in enumerate((first, first, short, short))
    ]
    tasks = make_tasks([PlacedTask(stream, 0, 0, 5) for stream in streams])
    buffers = (Buffer("x", ADDRESSES[0], 512, tensor=7), Buffer("y", ADDRESSES[2], 8192, tensor=9))
    host = HostCall(1, 6, 1024, "Softmax s", (0,), (1,))
    return RknnListing(Tables(2, tasks, buffers, 1, (host,)), SPEC)


def test_lines_and_operands() -> None:
    listing = products()
    assert len(listing) == 5
    shown = listing.describe(0)
    assert shown.opcode == "convolution"
    assert shown.text == "convolution 64x4x1 -> 16x4x1 1x1 stride 1x1 float16 to float32"
    assert (shown.unit, shown.node) == (unit_of(0, PC), 5)
    assert [(each.memory, each.address, each.size_bytes, each.tensor) for each in shown.reads] == [
        (2, 0x4000_0000, 896, -1),
        (2, ADDRESSES[0], 512, 7),
        (2, ADDRESSES[1], 2048, -1),
    ]
    assert [(each.address, each.size_bytes, each.tensor) for each in shown.writes] == [(ADDRESSES[2], 256, 9)]
    host = listing.describe(4)
    assert (host.opcode, host.text, host.unit) == ("host", "host Softmax s, 1 KiB", host_unit(SPEC))
    for index in (-1, 5):
        with pytest.raises(IndexError):
            listing.describe(index)
        with pytest.raises(IndexError):
            listing.details_of(index)


def registers_of(listing: RknnListing, index: int) -> dict[str, tuple[str, ...]]:
    _, table = listing.details_of(index)
    assert table.columns == ("block", "register", "value", "fields", "same group before", "written")
    return {f"{row[0]} {row[1]}": row for row in table.rows}


def test_registers_show_what_changed_in_their_group() -> None:
    listing = products()
    first, third = registers_of(listing, 0), registers_of(listing, 2)
    assert first["DPU DST_BASE_ADDR"][2:] == ("0x30000000", "address 0x30000000", "", "")
    assert third["DPU DST_BASE_ADDR"][2:] == ("0x30001000", "address 0x30001000", "0x30000000", "")
    assert third["CNA DATA_SIZE0"][4:] == ("", "inherited")
    assert third["CNA DATA_SIZE0"][2] == first["CNA DATA_SIZE0"][2] == "0x00010004"
    changed = [name for name, row in third.items() if row[4]]
    assert changed == ["DPU DST_BASE_ADDR"]
    fourth = registers_of(listing, 3)
    assert fourth["DPU DST_BASE_ADDR"][4] == "0x30000000"


def test_the_descriptor_of_a_task() -> None:
    listing = products()
    table, _ = listing.details_of(0)
    rows = {row[0]: row[1] for row in table.rows}
    assert rows["stream"] == "0x40000000, 112 words"
    assert rows["enable, interrupts"] == "0x0d, 0x0300"
    assert rows["features"] == "512 B"
    assert rows["weights"] == "2 KiB"
    assert rows["CORE cycles"] == "8"
    assert rows["CBUF banks"] == "1 for features, 11 for weights"
    assert "hangs" not in rows
    assert listing.details_of(4) == ()


@pytest.mark.parametrize(
    ("work", "text"),
    [
        (Work(None, replace(OUTPUT, is_flying=True), None), "elementwise 32x8x8"),
        (
            Work(None, replace(OUTPUT, is_flying=True, ew=replace(NO_EW, is_bypassed=False)), None),
            "elementwise 32x8x8 + add",
        ),
        (
            Work(CONVOLUTION, replace(OUTPUT, bs=replace(BIAS, has_relu=True, relu_limit=6)), None),
            "convolution 32x8x8 -> 32x8x8 1x1 stride 1x1 int8 to int8 + bias, clip",
        ),
        (Work(None, None, None), "task without an enabled block"),
    ],
)
def test_lines_of_other_tasks(work: Work, text: str) -> None:
    listing = RknnListing(Tables(1, (task_of(work),), (), 1), RknnSpec())
    assert listing.describe(0).text == text


def test_what_keeps_and_what_hangs_is_said() -> None:
    conv = replace(CONVOLUTION, keeps_weights=True, stride_x=0)
    table, _ = RknnListing(Tables(1, (task_of(Work(conv, OUTPUT, None)),), (), 1), RknnSpec()).details_of(0)
    rows = {row[0]: row[1] for row in table.rows}
    assert rows["CBUF banks"] == "6 for features, 6 for weights; kept: weights"
    assert rows["hangs"] == "CONV_CON3 has a stride of 0"


def test_columns() -> None:
    listing = products()
    indices = np.array([-1, 0, 3, 4, 5])
    assert listing.nodes_of(indices).tolist() == [-1, 5, 5, 6, -1]
    assert listing.units_of(indices).tolist() == [-1, 0, 0, host_unit(SPEC), -1]
    addresses, sizes, tensors = listing.destinations_of(indices)
    assert addresses.tolist() == [0, 0x3000_0000, 0x3000_1000, 0, 0]
    assert sizes.tolist() == [0, 256, 256, 0, 0]
    assert tensors.tolist() == [-1, 9, 9, -1, -1]
    assert listing.ranges_of_node(5) == [(0, 4)]
    assert listing.ranges_of_node(99) == []
    assert listing.ranges_of_unit(host_unit(SPEC)) == [(4, 5)]
