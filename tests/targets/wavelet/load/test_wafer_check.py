"""Tables of a compiled wafer that would lead a kernel astray are refused when they are read."""

from dataclasses import replace

import numpy as np
import pytest

from npuviz.base.errors import FormatError
from npuviz.targets.wavelet.kernels import isa
from npuviz.targets.wavelet.load.code_check import REGISTERS
from npuviz.targets.wavelet.load.compiled import load_run, load_wafer, save_run, save_wafer
from npuviz.targets.wavelet.wafer import (
    HOST_COPY_IN,
    HOST_COPY_OUT,
    Channel,
    DsrLoad,
    Fifo,
    HostCommand,
    QueueBinding,
    SourcePlace,
    Task,
)
from tests.targets.wavelet.samples import compiled


@pytest.fixture(scope="module")
def wafer():
    return compiled("heat", "wse3", 2, 2, cells=4)


def refuses(folder, wafer, text):
    save_wafer(folder, wafer)
    with pytest.raises(FormatError, match=text) as caught:
        load_wafer(folder)
    assert "\n" not in str(caught.value)


def program_with(wafer, **changes):
    return replace(wafer, programs=(replace(wafer.programs[0], **changes), *wafer.programs[1:]))


@pytest.mark.parametrize(("name", "params"), [("heat", {"cells": 4}), ("row_sum", {})])
@pytest.mark.parametrize("arch", ["wse2", "wse3"])
def test_what_the_compiler_writes_is_read(tmp_path, name, params, arch):
    save_wafer(tmp_path, compiled(name, arch, 3, 2, **params))
    assert load_wafer(tmp_path).columns == 3


def test_every_instruction_has_a_rule():
    assert set(REGISTERS) == {n for name, n in vars(isa).items() if name.startswith("OP_")}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"arch": "wse9"}, "arch: expected wse2 or wse3"),
        ({"columns": -1}, "columns"),
        ({"columns": 1 << 40}, "columns"),
        ({"program_of": np.full((2, 2), 7, np.int32)}, "program_of"),
        ({"program_of": np.zeros((2, 3), np.int32)}, "program_of"),
        ({"program_of": np.zeros((2, 2))}, "program_of"),
        ({"texts": ()}, "texts"),
        ({"offset": (-4, 1)}, "offset"),
        ({"channels": {(2, 0): ()}}, "channels"),
        ({"channels": {(0, 0): (Channel(24, ()),)}}, "color"),
        ({"channels": {(0, 0): (Channel(1, ((64, 1),)),)}}, "positions"),
        ({"channels": {(0, 0): (Channel(1, (), position=9),)}}, "position"),
        ({"channels": {(0, 0): (Channel(1, (), filter={"kind": 5}),)}}, "filter"),
        ({"exported": {"a" * 5000: ("u16", True)}}, "at most 4000 letters"),
    ],
)
def test_tables_of_the_wafer(tmp_path, wafer, changes, text):
    refuses(tmp_path, replace(wafer, **changes), text)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"memory_bytes": 1 << 40}, "memory_bytes"),
        ({"stack_base": 1 << 20}, "stack_base"),
        ({"image": np.zeros(1 << 17, np.uint8)}, "image"),
        ({"half": 3}, "half"),
        ({"code": np.zeros((4, 7), np.int64)}, "code"),
        ({"shapes": np.full((1, 8), 1 << 40, np.int64)}, "shapes"),
        ({"places": (SourcePlace(99, 1),)}, "places"),
        ({"activated": (63,)}, "activated"),
        ({"tasks": (Task("t", isa.ID_LOCAL, 9, 999),)}, "function"),
        ({"tasks": (Task("t", isa.ID_LOCAL, -1, 0),)}, "id"),
        ({"tasks": (Task("t", isa.ID_DATA, 1, 0, (0,) * 99),)}, "arguments"),
        ({"blocked": ((isa.ID_UT, -1),)}, "blocked"),
        ({"priorities": ((isa.ID_LOCAL, -3, 1),)}, "priorities"),
        ({"queues": (QueueBinding(9, False, 1),)}, "queue"),
        ({"queues": (QueueBinding(1, False, 31),)}, "color"),
        ({"fifos": (Fifo("f", 49_000, 4_000),)}, "size_bytes"),
        ({"fifos": (Fifo("f", 0, 8, empty_action=9),)}, "empty_action"),
        ({"dsrs": (DsrLoad(3, 0, 0),)}, "dsrs, file"),
        ({"dsrs": (DsrLoad(0, 0, 0, 99),)}, "dsrs, settings"),
        ({"teardown_handlers": {30: 0}}, "teardown_handlers"),
        ({"empty_handlers": {(9, True): 0}}, "empty_handlers"),
        ({"rotations": ((1, 0, 999, 1, 1),)}, "rotations"),
    ],
)
def test_tables_of_a_program(tmp_path, wafer, changes, text):
    refuses(tmp_path, program_with(wafer, **changes), text)


@pytest.mark.parametrize(
    ("kind", "change", "text"),
    [
        ("symbols", {"address": -1}, "symbols, address"),
        ("symbols", {"size_bytes": 1 << 30}, "symbols, size_bytes"),
        ("symbols", {"dtype": "object"}, "symbols, dtype"),
        ("symbols", {"shape": (1 << 40,)}, "symbols, shape"),
        ("exports", {"symbol": 99}, "exports, symbol"),
        ("exports", {"function": 999}, "exports, function"),
        ("functions", {"entry": 1 << 40}, "entry"),
        ("functions", {"num_regs": 1 << 20}, "num_regs"),
        ("functions", {"num_regs": 0}, "code"),
        ("functions", {"frame_bytes": -8}, "frame_bytes"),
        ("channels", {"color": 40}, "color"),
    ],
)
def test_rows_of_a_program(tmp_path, wafer, kind, change, text):
    rows = getattr(wafer.programs[0], kind) or (Channel(1, ()),)
    last = max(range(len(rows)), key=lambda i: getattr(rows[i], "num_regs", 0))
    changed = tuple(replace(row, **change) if i == last else row for i, row in enumerate(rows))
    refuses(tmp_path, program_with(wafer, **{kind: changed}), text)


def instruction(wafer, op, change):
    """The wafer with one column of the first such instruction changed."""
    code = wafer.programs[0].code.copy()
    rows = np.flatnonzero(code[:, isa.C_OP] == op)
    column, value = change
    code[rows[0], column] = value
    return program_with(wafer, code=code)


@pytest.mark.parametrize(
    ("op", "change", "text"),
    [
        (isa.OP_LI, (isa.C_OP, 99), "a known operation"),
        (isa.OP_LI, (isa.C_TYPE, 40), "a known type"),
        (isa.OP_LI, (isa.C_A, 300), "registers"),
        (isa.OP_LI, (isa.C_A, -1), "registers"),
        (isa.OP_GT, (isa.C_B, 1 << 40), "registers"),
        (isa.OP_JMP, (isa.C_IMM, 1 << 40), "inside of its function"),
        (isa.OP_JMP, (isa.C_IMM, -1), "inside of its function"),
        (isa.OP_RET, (isa.C_OP, isa.OP_NOP), "inside of its function"),
        (isa.OP_CALL, (isa.C_IMM, 999), "a call"),
        (isa.OP_CALL, (isa.C_C, 40), "a call"),
        (isa.OP_DSD, (isa.C_IMM, 999), "operation table"),
        (isa.OP_SYS, (isa.C_IMM, 99), "numbers that the operation knows"),
        (isa.OP_LI, (isa.C_LINE, 1 << 40), "a place"),
    ],
)
def test_instructions(tmp_path, wafer, op, change, text):
    refuses(tmp_path, instruction(wafer, op, change), text)


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        (isa.O_OPERATION, 43, "a DSD operation"),
        (isa.O_A_KIND, 9, "a DSD operation"),
        (isa.O_PRIORITY, 60, "a DSD operation"),
        (isa.O_DST, 4000, "registers of its function"),
        (isa.O_DST, -1, "registers of its function"),
        (isa.O_ACTIVATE, 4000, "registers of its function"),
    ],
)
def test_operations(tmp_path, wafer, column, value, text):
    operations = wafer.programs[0].operations.copy()
    operations[:, column] = value
    refuses(tmp_path, program_with(wafer, operations=operations), text)


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (HostCommand(9, "a"), "kind"),
        (HostCommand(HOST_COPY_OUT, "a", (0, 0, 1, 1), -5), "words"),
        (HostCommand(HOST_COPY_OUT, "a", (0, 0, 1500, 1500), 1 << 25), "words of all commands"),
        (HostCommand(HOST_COPY_OUT, "a", (0, -1, 1, 1), 1), "region"),
        (HostCommand(HOST_COPY_IN, "a", (0, 0, 1, 1), 4, np.zeros(3, np.uint32)), "data"),
        (HostCommand(HOST_COPY_IN, "a", (0, 0, 1, 1), 4, np.zeros(4)), "data"),
    ],
)
def test_recorded_commands(tmp_path, command, text):
    save_run(tmp_path, [command])
    with pytest.raises(FormatError, match=text):
        load_run(tmp_path)
