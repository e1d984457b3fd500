import json
from pathlib import Path

import pytest

from npuviz.cli.main import main
from npuviz.formats.neff.file import read_neff
from tests.cli.refusals import MODEL, Captured, done, names, refused


def test_a_model_becomes_a_neff_that_runs(tmp_path: Path, capsys: Captured) -> None:
    out = tmp_path / "cnn.neff"
    text = done(["compile", str(MODEL), "-o", str(out)], capsys)
    assert text.startswith(f"{out}: ")
    assert text.endswith(" variables for trn2\n")
    assert names(tmp_path) == ["cnn.neff"]
    assert read_neff(out).warnings == ()
    assert main(["run", str(out), "--check", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["check"]["failed"] == 0
    assert main(["run", str(MODEL), "--target", "neuroncore", "--json"]) == 0
    direct = json.loads(capsys.readouterr().out)
    assert summary["cycles"] == direct["cycles"]
    assert summary["outputs"] == direct["outputs"]


def test_settings_reach_the_compiler(tmp_path: Path, capsys: Captured) -> None:
    out = tmp_path / "cnn.neff"
    arguments = ["compile", str(MODEL), "-o", str(out), "--preset", "trn1", "--set", "dtype=bf16", "--json"]
    found = json.loads(done(arguments, capsys))
    assert found["file"] == str(out)
    assert found["bytes"] == out.stat().st_size
    assert found["text"].endswith("for trn1")
    assert read_neff(out).target == "trn1"
    assert "compiled for dtype=bfloat16" in refused(["run", str(out), "--set", "dtype=fp32"], capsys)
    assert "compiled for trn1" in refused(["run", str(out), "--preset", "trn2"], capsys)


def test_an_existing_file_is_replaced_whole(tmp_path: Path, capsys: Captured) -> None:
    first, second = tmp_path / "a.neff", tmp_path / "b.neff"
    second.write_bytes(b"something else")
    for out in (first, second):
        done(["compile", str(MODEL), "-o", str(out)], capsys)
    assert read_neff(first).members.keys() == read_neff(second).members.keys()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["m.foo"], "m.foo: its name does not say what to write; targets write *.neff"),
        ([".neff"], "its name does not say what to write"),
        (["nowhere/m.neff"], "there is no folder"),
        (["m.foo", "--target", "neuroncore"], "neuroncore writes *.neff (NEFF file)"),
        (["m.neff", "--target", "systolic"], "--target systolic writes no files; these do: neuroncore"),
        (["m.neff", "--target", "abacus"], "unknown target 'abacus'"),
        (["m.neff", "--preset", "trn9"], "unknown preset 'trn9'"),
        (["m.neff", "--set", "dtype=int8"], "--set dtype=int8: expected one of fp32, bf16, fp16"),
        (["folder.neff"], "expected a file to write, found something else there"),
    ],
)
def test_refusals(arguments: list[str], text: str, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "folder.neff").mkdir()
    out, *rest = arguments
    line = refused(["compile", str(MODEL), "-o", str(tmp_path / out), *rest], capsys)
    assert text in line
    assert names(tmp_path) == ["folder.neff"]


def test_models_that_cannot_be_compiled(tmp_path: Path, capsys: Captured) -> None:
    other = tmp_path / "list.json"
    other.write_text("{}")
    out = str(tmp_path / "m.neff")
    assert "cannot be compiled to m.neff; expected *.onnx" in refused(
        ["compile", str(other), "-o", out], capsys
    )
    assert "a folder; expected a model" in refused(["compile", str(tmp_path), "-o", out], capsys)
    same = tmp_path / "same.neff"
    same.write_text("x")
    assert "cannot be compiled" in refused(["compile", str(same), "-o", out], capsys)
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"not a model")
    assert "broken.onnx" in refused(["compile", str(broken), "-o", out], capsys)
    assert names(tmp_path) == ["broken.onnx", "list.json", "same.neff"]
