"""Figures: presets, settings, the cost tables, and that kernels and tables name the same numbers."""

import numpy as np
import pytest

from npuviz.base.errors import FormatError, UsageError
from npuviz.sim import stop
from npuviz.sim.parts import kernel_machine
from npuviz.targets.wavelet import isa
from npuviz.targets.wavelet import wafer as tables
from npuviz.targets.wavelet.costs import (
    COSTS,
    MATH,
    RATES,
    instruction_names,
    math_names,
    operation_names,
)
from npuviz.targets.wavelet.csl.lower.wafer_tables import SHAPE_WORDS
from npuviz.targets.wavelet.kernels import host_commands as tables_kernels
from npuviz.targets.wavelet.kernels import isa as k
from npuviz.targets.wavelet.kernels import program_records as pk
from npuviz.targets.wavelet.kernels import records as sk
from npuviz.targets.wavelet.kernels.time import stops as stops_kernels
from npuviz.targets.wavelet.spec import PRESETS, SOURCES, WaveletSpec, make_spec
from tests.targets.wavelet.assembler import Assembler, mem, wafer
from tests.targets.wavelet.running import launch


@pytest.mark.parametrize("preset", list(PRESETS))
def test_every_operation_has_a_rate_and_every_instruction_a_cost(preset: str) -> None:
    spec, notes = make_spec(preset)
    assert all(spec.rate_of(name).elements > 0 for name in operation_names())
    assert all(spec.cost_of(name) >= 0 for name in (*instruction_names(), *math_names()))
    assert any(note.code == "assumed" for note in notes)


def test_every_figure_says_where_it_is_from() -> None:
    fields = set(WaveletSpec.__dataclass_fields__)
    assert set(SOURCES) <= fields
    for table in (*RATES.values(), COSTS, MATH):
        assert all(
            entry.status in ("documented", "measured", "assumed") and entry.source for entry in table.values()
        )


def test_documented_widths_of_the_older_chip() -> None:
    spec, _ = make_spec("wse2")
    assert (spec.rate_of("fmach").elements, spec.rate_of("fmach").cycles) == (4, 1)
    assert spec.rate_of("mov32").elements == 2
    assert spec.input_words == (6, 6, 4, 4, 2, 2, 2, 2)
    assert spec.output_words == (2, 2, 6, 6, 2, 2)


def test_settings_change_the_tables() -> None:
    spec, _ = make_spec(settings={"rates": "fmacs=4/3", "costs": "div=7", "hop": "5"})
    assert (spec.rate_of("fmacs").elements, spec.rate_of("fmacs").cycles) == (4, 3)
    assert spec.cost_of("div") == 7
    assert spec.hop == 5


@pytest.mark.parametrize(
    "settings",
    [{"rates": "fmacs"}, {"rates": "nothing=1"}, {"rates": "fmacs=0"}, {"costs": "div=1/2"}, {"hop": "0"},
     {"hopp": "1"}, {"arch": "wse9"}, {"link_interval": "0.5"}],
)  # fmt: skip
def test_bad_settings_are_one_line(settings: dict[str, str]) -> None:
    with pytest.raises((UsageError, FormatError)) as error:
        make_spec(settings=settings)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("setting", "cycles"), [("fmacs=1/1", 256), ("", 512), ("fmacs=1/2", 512), ("fmacs=1/8", 2048)]
)
def test_a_rate_decides_the_time(setting: str, cycles: int) -> None:
    a = Assembler()
    x = a.variable("x", np.zeros(256, np.float32))
    a.function("go", export=())
    a.li(1, mem(x, 256))
    a.dsd("fmacs", "dssv", (1, 1, 1, 0))
    a.unblock()
    a.ret()
    machine = launch(wafer([a.program()], [[0]]), rates=setting)
    b = machine.observer.block(0)
    assert cycles <= int(machine.engine.state[b + sk.BLOCK.busy]) < cycles + 8


def test_numbers_shared_by_kernels_and_contract_are_equal() -> None:
    assert (sk.WAFER.cycle, sk.WAFER.status) == (kernel_machine.CYCLE_WORD, kernel_machine.STATUS_WORD)
    assert sk.STATUS_FINISHED == kernel_machine.STATUS_FINISHED
    for name in ("RESULT_UNTIL", "RESULT_FINISHED", "RESULT_EVENTS"):
        assert getattr(sk, name) == getattr(kernel_machine, name)
    for name in (
        "STOP_WORD",
        "WORD_ANY",
        "WORD_DATA",
        "WORD_FLOAT",
        "WORD_INDEX",
        "WORD_HALF",
        "WORD_CONTROL",
    ):
        assert getattr(stops_kernels, name) == getattr(stop, name)
    for name in vars(tables_kernels):
        if name.startswith("HOST_"):
            assert getattr(tables_kernels, name) == getattr(tables, name)


def test_fields_of_descriptors_in_kernels_are_those_of_the_instruction_set() -> None:
    a = Assembler()
    places = {field: a.variable(f"f{field}", np.zeros(1, np.uint64)) for field in isa.FIELDS}
    a.function("go", export=())
    for field, place in isa.FIELDS.items():
        a.li(1, 0)
        a.li(2, place.mask)
        a.emit("dsd_set", 1, 1, 2, imm=field)
        a.emit("st", 1, -1, imm=places[field], type=k.T_WORD)
    a.unblock()
    a.ret()
    machine = launch(wafer([a.program()], [[0]]))
    for field, place in isa.FIELDS.items():
        word = int.from_bytes(machine.read_pe(0, 0, places[field], 8), "little")
        assert word == place.mask << place.shift, field


def test_records_have_the_columns_that_the_lowering_writes() -> None:
    def columns(prefix: str) -> dict[str, int]:
        return {n.removeprefix(prefix).lower(): at for n, at in vars(k).items() if n.startswith(prefix)}

    assert columns("C_") == {name: field.first for name, field in pk.INSTRUCTION.fields.items()}
    fields = {name: field.first for name, field in pk.OPERATION.fields.items()}
    kinds, registers = fields.pop("kinds"), fields.pop("registers")
    for place, name in enumerate(("dst", "a", "b", "c")):
        fields[f"{name}_kind"], fields[name] = kinds + place, registers + place
    fields["async"] = fields.pop("is_async")
    assert columns("O_") == fields
    assert (pk.INSTRUCTION.num_words, pk.OPERATION.num_words) == (k.CODE_WORDS, k.OPERATION_WORDS)
    assert pk.SHAPE.num_words == SHAPE_WORDS
