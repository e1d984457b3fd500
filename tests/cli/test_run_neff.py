# NEFF files through `npuviz run` and `npuviz debug`: sound ones, hostile ones, and programs that go wrong.
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from npuviz.base.progress import NoProgress
from npuviz.cli.main import main
from npuviz.formats.neff.file import make_neff, write_neff
from npuviz.formats.neff.model import EngineFile, Neff, Subgraph
from npuviz.sim.target import LoadRequest
from npuviz.targets.neuroncore.isa import ENGINE_NAMES, Activation, Engine, Opcode
from npuviz.targets.neuroncore.load.model import compile_request
from npuviz.targets.neuroncore.neff.encoding import encode
from npuviz.targets.neuroncore.neff.writer import compiled_neff
from tests.cli.refusals import Captured, misbehaved, names, refused
from tests.formats.neff.cases import file_of_tar, small_neff, with_json, with_members
from tests.formats.neff.test_archive import tar_of
from tests.targets.neuroncore.text.assembler import assemble

TILE = "f32:sbuf[0:4,0x{:x},8x1]"


def program(text: str) -> Neff:
    """A NEFF with the assembled lines in the programs of their engines, and nothing else."""
    rows, transfers = assemble(text)
    engines = {
        name: EngineFile(name, encode(rows[rows["engine"] == Engine[name.upper()]], transfers))
        for name in ENGINE_NAMES[:-1]
    }
    return make_neff([Subgraph("sg00", engines=engines)], name="made.neff", target="cayman")


def written(neff: Neff, path: Path) -> str:
    write_neff(neff, path)
    return str(path)


def test_semaphores_that_wait_for_each_other_are_a_deadlock(tmp_path: Path, capsys: Captured) -> None:
    tile = TILE.format(0)
    path = written(
        program(
            f"DVE memset {tile} wait:S5>=1 signal:S6++\nPool memset {TILE.format(64)} wait:S6>=1 signal:S5++"
        ),
        tmp_path / "stuck.neff",
    )
    summary = json.loads(misbehaved(["run", path, "--json", "--record", "none"], capsys))
    assert summary["stop"]["kind"] == "deadlock"
    detail = summary["stop"]["detail"]
    assert detail.startswith("deadlock: ")
    for part in (
        "Core[0].Pool waits for Core[0].S[6] >= 1, now 0",
        "Core[0].DVE waits for Core[0].S[5] >= 1",
    ):
        assert part in detail
    assert detail.endswith("-> back to Core[0].Pool")


def test_a_semaphore_that_nobody_signals_is_a_deadlock(tmp_path: Path, capsys: Captured) -> None:
    path = written(program(f"DVE memset {TILE.format(0)} wait:S5>=1"), tmp_path / "alone.neff")
    summary = json.loads(misbehaved(["run", path, "--json", "--record", "none"], capsys))
    assert summary["stop"]["kind"] == "deadlock"
    assert "5" in summary["stop"]["detail"]


def test_hazards_of_a_program_are_listed_in_the_debugger(tmp_path: Path, capsys: Captured) -> None:
    """LOG of zeros is outside its table; and the table set of LOG was never loaded."""
    path = written(
        program(
            f"DVE memset {TILE.format(0)} signal:S5++\n"
            f"Activation activation.log {TILE.format(64)} <- {TILE.format(0)} imm=1 wait:S5>=1"
        ),
        tmp_path / "log.neff",
    )
    script = tmp_path / "script"
    script.write_text("run\nhazards\nquit\n")
    text = misbehaved(["debug", path, "--script", str(script)], capsys)
    assert "input-range" in text
    assert "log of 0 in partition 0 is outside [2^-64, 2^64]" in text
    assert "log needs table set natural_log" in text


def test_hazards_of_a_wrongly_compiled_model_are_in_the_summary(tmp_path: Path, capsys: Captured) -> None:
    """The compiler keeps inputs in their ranges; here every LOG of its program is made to see zeros."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 32]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Log", ["x"], ["y"])], "log", ends[:1], ends[1:])
    model, file = tmp_path / "log.onnx", tmp_path / "log.neff"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
    spec, _, compiled = compile_request(LoadRequest(model), NoProgress())
    for scale, code, kinds in ((None, 0, set()), (0.0, 1, {"input-range"})):
        rows = compiled.tables.instructions.copy()
        chosen = (rows["opcode"] == Opcode.ACTIVATION) & (rows["op0"] == Activation.LOG)
        assert chosen.any()
        if scale is not None:
            rows["imm"][chosen, 0] = scale
        changed = replace(compiled, tables=replace(compiled.tables, instructions=rows))
        write_neff(compiled_neff(changed, spec, "log"), file)
        assert main(["run", str(file), "--check", "--json", "--record", "none"]) == code
        summary = json.loads(capsys.readouterr().out)
        # Logarithms of negative numbers are NaN in the reference, too: these births are told, and no fault.
        found = [hazard for hazard in summary["hazards"] if hazard["kind"] not in ("nan", "infinity")]
        assert {hazard["kind"] for hazard in found} == kinds
        for hazard in found:
            assert hazard["unit"] == "Core[0].Activation"
            assert chosen[hazard["instruction"]]
            assert "log of 0 in partition 0 is outside [2^-64, 2^64]" in hazard["detail"]


def _changed(member: str, path: str, value: object) -> Callable[[], bytes]:
    def make() -> bytes:
        from npuviz.formats.neff.file import neff_to_bytes

        neff = small_neff()
        return neff_to_bytes(with_members(neff, with_json(neff, member, path, value)))

    return make


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: b"", "expected a NEFF header of 1024 bytes"),
        (lambda: bytes(2000), "header_size: expected 1024, found 0"),
        (lambda: file_of_tar(tar_of(("a", b"1")), data_size=1 << 40), "data_size: expected at most"),
        (lambda: file_of_tar(tar_of(("../up", b"1"))), "'../up', a path with"),
        (lambda: file_of_tar(tar_of(("/abs", b"1"))), "'/abs', an absolute path"),
        (lambda: file_of_tar(tar_of(("a", b""), ("a", b""))), "'a' twice"),
        (_changed("sg00/PE.json", "dma.0.desc.to_off", 1000), "not inside variable y"),
        (_changed("sg00/PE.json", "dma.0.desc.to_off", -4), "sg00/PE.json"),
    ],
)
def test_hostile_files_are_one_line(
    make: Callable[[], bytes], text: str, tmp_path: Path, capsys: Captured
) -> None:
    path = tmp_path / "bad.neff"
    path.write_bytes(make())
    assert text in refused(["run", str(path)], capsys)
    assert names(tmp_path) == ["bad.neff"]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("DVE memset f32:sbuf[0:4,0x38000,8x1]", "SBUF"),
        ("DVE memset f32:sbuf[96:144,0x0,8x1]", "partition"),
        ("DVE memset f32:psum[0:4,0x4000,8x1]", "PSUM"),
        ("DVE memset f32:sbuf[0:4,0x0,8x1] wait:S999>=1", "wait: expected a number below 256"),
    ],
)
def test_operands_outside_the_machine_are_one_line(
    line: str, text: str, tmp_path: Path, capsys: Captured
) -> None:
    path = written(program(line), tmp_path / "bad.neff")
    assert text in refused(["run", path], capsys)


def test_a_misspelt_setting_of_a_model_is_suggested(capsys: Captured) -> None:
    from tests.cli.refusals import MODEL

    text = refused(["run", str(MODEL), "--target", "neuroncore", "--set", "lncc=2"], capsys)
    assert "lnc" in text.replace("lncc", "")
