# The real product from its command line, used wrongly: one clear line, exit code 2.
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from npuviz.cli.main import main
from tests.cli.refusals import CONFIG, MODEL, SAMPLES, SMALL, Captured, done, refused
from tests.sweeps import quick


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("spad_size=0", "from 1 to"),
        ("core_width=0", "from 1 to"),
        ("core_width=-4", "from 1 to"),
        ("cores=1000000000", "from 1 to 4096"),
        ("cores=nan", "from 1 to 4096"),
        ("cores=" + "9" * 5000, "from 1 to 4096"),
        ("vector_process_bit=8", "from 16 to"),
        ("core_widht=3", "core_width"),
        ("core_7.core_width=3", "there are 2 cores"),
        ("btach=2", "open dimensions: batch"),
        ("batch=-1", "must be 0 to"),
        ("batch=99999999999999999999", "must be 0 to 17179869184"),
        ("batch=100000000", "elements"),
        ("batch=many", "whole number"),
        ("x" * 5000 + "=1", "open dimensions: batch"),
        ("mode=tru", "one of true, parity"),
        ("=1", "KEY=VALUE"),
        ("dram_type=ramulator2", "--set dram_device="),
    ],
)
def test_settings(setting: str, expected: str, capsys: Captured) -> None:
    assert expected in refused(["run", *SMALL, "--set", setting], capsys)


@pytest.mark.parametrize(
    ("condition", "marked"),
    [
        ("", ">><<"),
        ("cycle ==", "cycle ==>><<"),
        ("cycle == -1", ">>-1<<"),
        ("cycle == 99999999999999999999", ">>99999999999999999999<<"),
        ("cycle == 10 20", ">>20<<"),
        ("instr 5..1", ">>5..1<<"),
        ("instr 99999999", ">>99999999<<"),
        ("op nothing", ">>nothing<<"),
        ('op "conv1', '>>"conv1<<'),
        ("queue X >= 2", ">>X<<"),
        ("read X 0..1", ">>X<<"),
        ("write DRAM 0x10..zz", ">>0x10..zz<<"),
        ("read Core[0].SPAD 0x99999999", ">>0x99999999<<"),
        ("Core[0].nope >= 2", ">>Core[0].nope<<"),
        ("(" * 10000, "at most 2000 words"),
        ("(" * 1000, "brackets in each other"),
    ],
)
def test_conditions_show_the_bad_part(condition: str, marked: str, capsys: Captured) -> None:
    text = refused(["run", *SMALL, "--break", condition], capsys)
    assert "condition '" in text
    assert marked in text or (len(condition) > 1000 and " ... " in text)


@pytest.mark.parametrize("until", ["-1", "1e5", "x", ""])
def test_until_is_a_cycle(until: str, capsys: Captured) -> None:
    assert "--until" in refused(["run", *SMALL, f"--until={until}"], capsys)


@pytest.mark.parametrize("until", ["0", "1", "1000000", "9" * 30])
def test_until_nothing_and_beyond_the_end(until: str, capsys: Captured) -> None:
    summary = json.loads(done(["run", *SMALL, "--json", "--until", until], capsys))
    assert summary["cycles"] == summary["stop"]["cycle"] <= int(until)
    assert summary["stop"]["kind"] == ("finished" if len(until) > 1 else "until")


def test_a_breakpoint_that_hit_is_named(capsys: Captured) -> None:
    summary = json.loads(done(["run", *SMALL, "--json", "--break", "cycle == 10"], capsys))
    assert summary["stop"] == {"kind": "breakpoint", "cycle": 10, "detail": "cycle == 10"}


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.zeros((1, 3, 16, 15), np.float32), "expected shape (1, 3, 16, 16), found (1, 3, 16, 15)"),
        (np.zeros((1, 3, 16, 16), np.complex64), "expected values of type float32, found complex64"),
        (np.full((1, 3, 16, 16), "x"), "expected values of type float32, found <U1"),
    ],
)
def test_inputs_of_another_kind(array: np.ndarray, expected: str, tmp_path: Path, capsys: Captured) -> None:
    np.save(tmp_path / "x.npy", array)
    assert expected in refused(["run", *SMALL, "--input", f"input={tmp_path / 'x.npy'}"], capsys)


def test_input_files_that_are_none(tmp_path: Path, capsys: Captured) -> None:
    good = tmp_path / "good.npy"
    np.save(good, np.zeros((1, 3, 16, 16), np.float32))
    data = good.read_bytes()
    bad = tmp_path / "bad.npy"
    for content in (b"", b"hello", data[:500], data.replace(b"(1, 3, 16, 16)", b"(99999,999999)")):
        bad.write_bytes(content)
        assert "bad.npy" in refused(["run", *SMALL, "--input", f"input={bad}"], capsys)
    assert "a folder" in refused(["run", *SMALL, "--input", f"input={tmp_path}"], capsys)
    assert "no such input; it has input" in refused(["run", *SMALL, "--input", f"inptu={good}"], capsys)
    done(["run", *SMALL, "--input", f"input={good}"], capsys)


# ---- hardware descriptions and lists of models


def _core(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda data: data["core_config"]["core_0"].update(values)


def _chip(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda data: data.update(values)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (_chip(num_cores=0), "num_cores"),
        (_chip(num_cores=10**9), "num_cores"),
        (_chip(num_cores=10**30), "num_cores"),
        (_chip(num_cores="2"), "num_cores"),
        (_chip(num_cores=True), "num_cores"),
        (_chip(num_cores=3), "core_config.core_2"),
        (_chip(core_config=[]), "core_config"),
        (_chip(dram_channels=1e308), "dram_channels"),
        (_chip(dram_freq=float("nan")), "NaN"),
        (_chip(partition={"core_0": "x"}), "partition.core_0"),
        (_core(core_width=0), "core_0.core_width"),
        (_core(core_height=-1), "core_0.core_height"),
        (_core(spad_size=10**15), "core_0.spad_size"),
        (_core(vector_process_bit=1), "core_0.vector_process_bit"),
        (lambda data: data.pop("core_freq"), "core_freq"),
    ],
)
def test_wrong_values_in_a_hardware_description(
    change: Callable[[dict[str, Any]], None], field: str, tmp_path: Path, capsys: Captured
) -> None:
    data = json.loads(CONFIG.read_text())
    change(data)
    path = tmp_path / "chip.json"
    path.write_text(json.dumps(data))
    text = refused(["run", str(MODEL), "--config", str(path)], capsys)
    assert "chip.json" in text
    assert field in text


def test_unknown_keys_are_told_and_ignored(tmp_path: Path, capsys: Captured) -> None:
    data = json.loads(CONFIG.read_text())
    data["core_config"]["core_0"]["core_hieght"] = 3
    path = tmp_path / "chip.json"
    path.write_text(json.dumps(data))
    notes = json.loads(done(["run", str(MODEL), "--config", str(path), "--json"], capsys))["notes"]
    [text] = [note["text"] for note in notes if note["code"] == "config"]
    assert "core_config.core_0.core_hieght is ignored (did you mean core_height?)" in text


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{", b"[]", b"null", b"\0\0", b"\xff\xfe", b'{"a": 1, "a": 2}', b'{"num_cores": NaN}'),
        *(b"[" * 100000, b'{"a":' * 50000, b'{"num_cores": 1' + b"0" * 5000 + b"}"),
    ],
)
def test_files_that_are_no_hardware_description(content: bytes, tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "chip.json"
    path.write_bytes(content)
    text = refused(["run", str(MODEL), "--config", str(path)], capsys)
    assert "chip.json" in text
    assert "sys.set_int" not in text


@pytest.mark.parametrize("mode", ["true", "parity"])
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"models": []}', "an empty list"),
        ('{"models": {}}', "an object"),
        ('{"models": [1]}', "models[0]"),
        ('{"models": [{"name": "../x"}]}', "models[0].name"),
        ('{"models": [{"name": "x", "batch_size": -1}]}', "models[0].batch_size"),
        ('{"models": [{"name": "nope"}]}', "ONNXIM_HOME"),
        ('{"models": ' + "[" * 5000, "nested"),
    ],
)
def test_lists_of_models(content: str, expected: str, mode: str, tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "list.json"
    path.write_text(content)
    arguments = ["run", str(path), "--config", str(CONFIG), "--set", f"mode={mode}"]
    assert expected in refused(arguments, capsys)


# ---- models


@quick("side0-tiny_cnn", "side2-*")
@pytest.mark.parametrize("model", ["tiny_cnn", "tiny_transformer"])
@pytest.mark.parametrize("side", [(1, 1), (3, 50), (4096, 4096)])
def test_what_does_not_fit_goes_to_the_host(model: str, side: tuple[int, int], capsys: Captured) -> None:
    sizes = ["spad_size=1", "accum_spad_size=1", f"core_width={side[0]}", f"core_height={side[1]}"]
    options = [text for size in sizes for text in ("--set", size)]
    arguments = ["run", str(SAMPLES / f"{model}.onnx"), "--config", str(CONFIG), *options]
    assert json.loads(done([*arguments, "--check", "--json"], capsys))["check"]["failed"] == 0


def test_damaged_models(tmp_path: Path, capsys: Captured) -> None:
    whole = MODEL.read_bytes()
    draw = random.Random(5)
    path = tmp_path / "m.onnx"
    refusals = 0
    for attempt in range(60):
        data = bytearray(whole)
        if attempt % 3 == 0:
            data = data[: draw.randrange(len(data))]
        else:
            for _ in range(draw.randint(1, 6)):
                # The first bytes and the last ones are structure, most of the rest is weights.
                place = draw.choice([draw.randrange(700), len(data) - 1 - draw.randrange(1500)])
                data[place] = draw.randrange(256)
        path.write_bytes(data)
        # Neither warnings of libraries nor results matter here, only how it ends.
        code = main(["info", str(path), "--json"])
        captured = capsys.readouterr()
        assert code in (0, 2)
        if code == 2:
            refusals += 1
            assert captured.err.startswith("npuviz: error: ")
            assert captured.err.count("\n") == 1
            assert "internal error" not in captured.err
    assert refusals >= 20


def test_names_that_are_no_utf8(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(MODEL.read_bytes().replace(b"conv2.weight", b"conv2\xddweight"))
    assert "m.onnx" in refused(["info", str(path)], capsys)


def test_external_data(tmp_path: Path, capsys: Captured) -> None:
    path, weights = tmp_path / "m.onnx", tmp_path / "w.bin"
    onnx.save(onnx.load(MODEL), path, save_as_external_data=True, location=weights.name, size_threshold=16)
    data = weights.read_bytes()
    done(["info", str(path)], capsys)
    weights.write_bytes(data[: len(data) // 2])
    assert "w.bin" in refused(["info", str(path)], capsys)
    weights.unlink()
    assert "copy it beside the model" in refused(["info", str(path)], capsys)
    weights.mkdir()
    assert "found a folder" in refused(["info", str(path)], capsys)


@pytest.mark.parametrize("command", ["run", "info", "debug", "open"])
def test_files_that_are_no_models(command: str, tmp_path: Path, capsys: Captured) -> None:
    assert "no such file" in refused([command, str(tmp_path / "nothing.onnx")], capsys)
    if command != "open":
        assert "a folder without manifest.json" in refused([command, str(tmp_path)], capsys)
        assert "--config" in refused([command, str(CONFIG)], capsys)
        assert "*.onnx" in refused([command, "/dev/null"], capsys)


def test_a_model_alone_that_does_not_exist(capsys: Captured) -> None:
    assert "nothing.onnx: no such file" in refused(["nothing.onnx"], capsys)


def test_names_with_spaces_and_signs(tmp_path: Path, capsys: Captured) -> None:
    path, bundle = tmp_path / "\u00fc n\u00e4me \U0001f642.onnx", tmp_path / "b \u00fc \U0001f642"
    shutil.copy(MODEL, path)
    done(["run", str(path), "--config", str(CONFIG), "--record", str(bundle)], capsys)
    assert json.loads(done(["info", str(bundle), "--json"], capsys))["title"] == path.stem
    assert "slices" in done(["query", str(bundle), "show tables"], capsys)
    strange = tmp_path / b"m\xff.onnx".decode(errors="surrogateescape")
    shutil.copy(MODEL, strange)
    assert json.loads(done(["info", str(strange), "--json"], capsys))["title"] == "m\ufffd"
