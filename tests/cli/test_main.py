import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from npuviz import __version__
from npuviz.cli import main as main_module
from npuviz.cli.main import SUBCOMMANDS, main
from tests.toy.target import ToyTarget
from tests.workbench.toy_registry import toy_file

Captured = pytest.CaptureFixture[str]


def npuviz(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "npuviz.cli.main", *arguments], capture_output=True, text=True, check=False
    )


def error_of(capsys: Captured) -> str:
    """The one line on stderr; nothing may be on stdout."""
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert len(lines) == 1, captured.err
    assert lines[0].startswith("npuviz: error: ")
    return lines[0]


def test_version_imports_nothing_heavy() -> None:
    code = (
        "import sys; from npuviz.cli.main import main; main(['--version']); "
        "print(sorted({'numpy','typer','PySide6','numba','onnx'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == f"npuviz {__version__}\n[]\n"


def test_help_lists_every_subcommand(capsys: Captured) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for name in SUBCOMMANDS:
        assert f"  {name} " in text


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_every_subcommand_has_help(name: str, capsys: Captured) -> None:
    assert main([name, "--help"]) == 0
    assert f"npuviz {name}" in capsys.readouterr().out


@pytest.mark.usefixtures("toy_target")
def test_run_json_prints_exactly_one_object(tmp_path: Path, capsys: Captured) -> None:
    assert main(["run", str(toy_file(tmp_path)), "--json", "--check", "--seed", "3"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert captured.out.count("\n") == 1
    summary = json.loads(captured.out)
    assert summary["cycles"] == 767
    assert summary["check"]["failed"] == 0


@pytest.mark.usefixtures("toy_target")
def test_run_takes_settings_breaks_and_exports(tmp_path: Path, capsys: Captured) -> None:
    out = tmp_path / "run.pftrace"
    code = main(
        [
            *("run", str(toy_file(tmp_path)), "--set", "blocks=4", "--break", "instr 9", "--json"),
            *("--export", f"perfetto:{out}"),
        ]
    )
    assert code == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["stop"]["kind"] == "breakpoint"
    assert out.is_file()


@pytest.mark.usefixtures("toy_target")
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["run"], "Missing argument"),
        (["run", "missing.toy"], "missing.toy: no such file"),
        (["run", "FILE", "--wat"], "No such option: --wat"),
        (["run", "FILE", "--seed", "x"], "--seed"),
        (["run", "FILE", "--seed", "-1"], "--seed"),
        (["run", "FILE", "--set", "nonsense"], "KEY=VALUE"),
        (["run", "FILE", "--set", "wat=1"], "known:"),
        (["run", "FILE", "--target", "wat"], "unknown target 'wat'"),
        (["run", "FILE", "--config", "missing.json"], "missing.json: no such file"),
        (["run", "FILE", "--break", "when it rains"], "condition"),
        (["run", "FILE", "--input", "x"], "NAME=FILE.npy"),
        (["run", "FILE", "--export", "wat:out"], "unknown export format"),
        (["run", "FILE", "--record", "FILE"], "choose another name"),
        (["run", "FILE", "--record", "/proc/nothing/here"], "cannot write"),
        (["info", "missing"], "no such file"),
        (["shot", "FILE", "-o", "x.png", "--size", "big"], "WIDTHxHEIGHT"),
        (["bench", "wat"], "unknown benchmark"),
        (["missing-command"], "no such file"),
    ],
)
def test_bad_usage_is_one_line_and_exit_two(
    arguments: list[str], expected: str, tmp_path: Path, capsys: Captured
) -> None:
    file = str(toy_file(tmp_path))
    assert main([file if text == "FILE" else text for text in arguments]) == 2
    assert expected in error_of(capsys)


@pytest.mark.usefixtures("toy_target")
@pytest.mark.parametrize("text", ["", "{", "[]", "\0\0\0\0", '{"blocks": -5}'])
def test_bad_files_are_one_line_and_exit_two(text: str, tmp_path: Path, capsys: Captured) -> None:
    assert main(["run", str(toy_file(tmp_path, text))]) == 2
    assert "small.toy" in error_of(capsys)


@pytest.mark.usefixtures("toy_target")
def test_a_device_is_never_replaced_by_an_export(tmp_path: Path, capsys: Captured) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert main(["run", str(toy_file(tmp_path)), "--export", f"perfetto:{pipe}"]) == 2
    assert "device or a pipe" in error_of(capsys)
    assert pipe.is_fifo()


@pytest.mark.usefixtures("toy_target")
def test_a_bug_is_one_line_and_leaves_a_report(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bug(self: ToyTarget, spec: object, program: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(ToyTarget, "build", bug)
    assert main(["run", str(toy_file(tmp_path))]) == 2
    line = error_of(capsys)
    assert "ZeroDivisionError: oops" in line
    report = Path(line.rpartition(" in ")[2])
    assert "in bug" in report.read_text()


@pytest.mark.usefixtures("toy_target")
def test_a_full_disk_is_one_line_and_exit_two(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = toy_file(tmp_path)
    monkeypatch.setattr(os, "replace", full)
    assert main(["run", str(path), "--export", f"perfetto:{tmp_path / 'x'}"]) == 2
    assert "No space left" in error_of(capsys)
    assert [item.name for item in tmp_path.iterdir()] == ["small.toy"]


@pytest.mark.usefixtures("toy_target")
def test_info_and_targets_as_json(tmp_path: Path, capsys: Captured) -> None:
    path = toy_file(tmp_path)
    assert main(["info", str(path), "--json"]) == 0
    model = json.loads(capsys.readouterr().out)
    assert model["kind"] == "model"
    assert model["operators"] == {"Mul": 2, "Add": 2}
    main(["run", str(path), "--record", str(tmp_path / "bundle")])
    capsys.readouterr()
    assert main(["info", str(tmp_path / "bundle"), "--json"]) == 0
    bundle = json.loads(capsys.readouterr().out)
    assert bundle["kind"] == "bundle"
    assert bundle["cycles"] == 767
    assert bundle["summary"]["outputs"][0]["sha256"]
    assert main(["targets", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["targets"][0]["id"] == "toy"
    for arguments in (["info", str(path)], ["info", str(tmp_path / "bundle")], ["targets"]):
        assert main(arguments) == 0
        assert "toy" in capsys.readouterr().out


@pytest.mark.usefixtures("toy_target")
def test_an_earlier_bundle_survives_a_failing_run(tmp_path: Path, capsys: Captured) -> None:
    path = toy_file(tmp_path)
    bundle = tmp_path / "bundle"
    assert main(["run", str(path), "--record", str(bundle)]) == 0
    before = {item.name: item.read_bytes() for item in bundle.iterdir()}
    assert main(["run", str(path), "--record", str(bundle), "--break", "nonsense"]) == 2
    assert {item.name: item.read_bytes() for item in bundle.iterdir()} == before
    assert sorted(item.name for item in tmp_path.iterdir()) == ["bundle", "small.toy"]
    capsys.readouterr()


def test_the_real_command_runs_a_sample_model() -> None:
    found = npuviz("run", "tiny_cnn", "--check", "--json")
    assert found.returncode == 0, found.stderr
    assert found.stderr == ""
    summary = json.loads(found.stdout)
    assert summary["check"]["failed"] == 0
    assert summary["cycles"] > 1000
    assert summary["outputs"][0]["sha256"]


def test_a_closed_pipe_is_no_error() -> None:
    command = [sys.executable, "-m", "npuviz.cli.main", "targets"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 0


def test_ctrl_c_while_loading_is_exit_130() -> None:
    code = (
        "import os, signal, sys\n"
        "from npuviz.base import registry\n"
        "from npuviz.workbench import choosing\n"
        "class Slow:\n"
        "    id = title = 'slow'; presets = {}; file_kinds = {}\n"
        "    def accepts(self, path, head): os.kill(os.getpid(), signal.SIGINT); return True\n"
        "choosing.load_plugins = lambda group: {'slow': Slow()}\n"
        "from npuviz.cli.main import main\n"
        "sys.exit(main(['run', sys.argv[1]]))\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, __file__],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 128 + signal.SIGINT
    assert found.stderr == "npuviz: interrupted\n"
    assert found.stdout == ""


def test_an_interrupt_ends_the_program_and_later_ones_find_it_ended(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wherever it comes; and while Python shuts down it does nothing any more."""

    def interrupted(*_given: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(main_module, "_main", interrupted)
    before = signal.getsignal(signal.SIGINT)
    assert main([]) == 130
    assert signal.getsignal(signal.SIGINT) == before
    try:
        assert main() == 130
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err == "npuviz: interrupted\n" * 2


def test_an_interrupt_before_it_can_be_handled_ends_the_program(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(main_module, "Interrupts", interrupted)
    assert main([]) == 130
    assert capsys.readouterr().err == "npuviz: interrupted\n"


@pytest.mark.parametrize("command", [["explain", "--no-verify"], ["races", "--seeds", "1"]])
def test_what_reads_programs_takes_the_shapes_of_a_kernel(command: list[str], capsys: Captured) -> None:
    kernel = str(Path(__file__).parents[2] / "sample_models" / "nki" / "vector_add.py")
    arguments = [command[0], kernel, *command[1:], "--kernel", "vector_add", "--shape", "a=128x512:float32"]
    assert main(arguments) == 2
    assert "needs b: give --input" in error_of(capsys)
    assert main([*arguments, "--shape", "b=128x512:float32"]) == 0


def test_every_command_that_opens_programs_takes_kernels() -> None:
    for name in ("open", "run", "debug", "explain", "races", "shot"):
        found = npuviz(name, "--help").stdout
        assert [option for option in ("--kernel", "--shape", "--grid") if option not in found] == [], name
