import json
import zipfile
from dataclasses import replace

import numpy as np
import pytest

from npuviz.base.errors import FormatError
from npuviz.targets.wavelet.kernels import isa
from npuviz.targets.wavelet.load import compiled
from npuviz.targets.wavelet.load.archive import DOCUMENT
from npuviz.targets.wavelet.load.compiled import load_run, load_wafer, save_run, save_wafer
from npuviz.targets.wavelet.wafer import (
    HOST_COPY_IN,
    Channel,
    Export,
    Function,
    HostCommand,
    PeProgram,
    SourcePlace,
    Symbol,
    Wafer,
)


def program(name, code, places):
    return PeProgram(
        name=name,
        code=code,
        places=places,
        functions=(Function("f", 0, 0, 0, places[0]),),
        tasks=(),
        operations=np.zeros((0, 24), np.int64),
        shapes=np.zeros((0, 8), np.int64),
        image=np.arange(5, dtype=np.uint8),
        stack_base=8,
        memory_bytes=1024,
        symbols=(Symbol("a", 0, 4, "[2]u16", "uint16", (2,)),),
        exports=(Export("a", symbol=0),),
        empty_handlers={(2, True): 0},
        teardown_handlers={3: 0},
    )


def wafer():
    code = np.array([[isa.OP_NOP, 1, 2, 3, 4, 5, 6, 0], [isa.OP_RET, -1, 0, 0, 0, 0, 0, 5]], np.int64)
    places = tuple(SourcePlace(0, n) for n in range(1, 7))
    channel = Channel(3, ((1, 4), None, (1, 2)), ring=True, filter={"kind": 2, "min_idx": 1})
    return Wafer(
        name="w",
        arch="wse3",
        columns=2,
        rows=1,
        programs=(program("p", code, places), program("q", code, places)),
        program_of=np.array([[0, 1]], np.int32),
        channels={(1, 0): (channel,)},
        fabric=(9, 3),
        files=("layout.csl",),
        texts=("layout {}",),
        exported={"a": ("[*]u16", True)},
        params={"M": "4"},
    )


def test_a_wafer_comes_back_with_what_programs_share(tmp_path):
    given = wafer()
    save_wafer(tmp_path / "out", given)
    found = load_wafer(tmp_path / "out")
    assert found.channels == given.channels
    assert found.exported == given.exported
    assert found.programs[1].empty_handlers == {(2, True): 0}
    assert found.programs[0].symbols == given.programs[0].symbols
    np.testing.assert_array_equal(found.programs[0].code, given.programs[0].code)
    assert found.programs[0].code is found.programs[1].code
    assert found.programs[0].places is found.programs[1].places
    assert found.programs[0].image.flags.writeable


def test_out_json_gives_parameters_as_texts(tmp_path):
    save_wafer(tmp_path, wafer())
    assert json.loads((tmp_path / "out.json").read_text())["params"] == {"M": "4"}


def test_compiling_again_forgets_the_recorded_run(tmp_path):
    save_wafer(tmp_path, wafer())
    data = np.arange(6, dtype=np.uint32).reshape(1, 2, 3)
    save_run(tmp_path, [HostCommand(HOST_COPY_IN, "a", (0, 0, 2, 1), 3, data)], "run.py")
    found = load_run(tmp_path)
    assert found is not None
    assert found.commands[0].subject == "a"
    np.testing.assert_array_equal(found.commands[0].data, data)
    save_wafer(tmp_path, wafer())
    assert load_run(tmp_path) is None


def test_a_changed_byte_is_noticed(tmp_path):
    save_wafer(tmp_path, wafer())
    path = tmp_path / compiled.WAFER_FILE
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
        comment = archive.comment
    members["0.npy"] = members["0.npy"][:-1] + b"\xff"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        archive.comment = comment
    with pytest.raises(FormatError, match="unchanged content"):
        load_wafer(tmp_path)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 broken", b"x" * 100])
def test_other_bytes_are_refused(tmp_path, content):
    (tmp_path / compiled.WAFER_FILE).write_bytes(content)
    with pytest.raises(FormatError):
        load_wafer(tmp_path)


def test_fields_of_another_type_are_refused(tmp_path):
    path = tmp_path / compiled.WAFER_FILE
    save_wafer(tmp_path, replace(wafer(), columns="two"))
    with pytest.raises(FormatError, match="columns"):
        load_wafer(tmp_path)
    assert DOCUMENT in zipfile.ZipFile(path).namelist()
