import json
from pathlib import Path

import pytest

from npuviz.cli.main import main
from tests.workbench.toy_registry import toy_file

SAMPLES = Path(__file__).parents[2] / "sample_models"
SMALL = ["tiny_cnn", "--config", str(SAMPLES / "systolic_2x16x16.json")]


def test_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "commands"
    script.write_text("# conv1\nbreak op conv1 ends\nrun\nnonsense\nback 3\ndigest\nquit\nrun\n")
    assert main(["debug", *SMALL, "--script", str(script), "--json"]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"npuviz: error: {script}: a command failed: unknown command 'nonsense'")
    assert captured.err.count("\n") == 1
    answers = [json.loads(line) for line in captured.out.splitlines()]
    assert [answer["command"] for answer in answers] == ["break", "run", "nonsense", "back", "digest"]
    assert answers[1]["stop"] == "breakpoint"
    assert answers[3]["cycle"] == answers[1]["cycle"] - 3 == answers[4]["cycle"]
    assert "unknown command" in answers[2]["error"]


@pytest.mark.parametrize(
    ("settings", "commands", "code", "why"),
    [
        ({"stuck_at": 9}, "run", 3, "the simulated chip misbehaved: deadlock at cycle "),
        ({"stuck_at": 9}, "run\nback 5\nnonsense", 3, "the simulated chip misbehaved: deadlock at cycle "),
        ({"hazard_above": 300}, "run", 3, "the simulated chip misbehaved: hazard range at cycle "),
        ({"hazard_above": 300}, "run 300", 0, ""),
        ({}, "run\nprint nothing", 2, "npuviz: error: "),
        ({}, "run", 0, ""),
    ],
)
@pytest.mark.usefixtures("toy_target")
def test_a_script_that_went_wrong_is_no_success(
    settings: dict[str, int],
    commands: str,
    code: int,
    why: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither from a file nor through a pipe."""
    script = tmp_path / "commands"
    script.write_text(commands)
    model = str(toy_file(tmp_path, json.dumps(settings)))
    assert main(["debug", model, "--script", str(script)]) == code
    error = capsys.readouterr().err
    assert why in error
    assert bool(error) == bool(code)
    with script.open() as file:
        monkeypatch.setattr("sys.stdin", file)
        assert main(["debug", model]) == code


def test_breaks_and_until(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "commands"
    script.write_text("run\n")
    assert main(["debug", *SMALL, "--script", str(script), "--until", "30", "--break", "cycle == 50"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("stop: until\ncycle: 30\n")
    assert "stop: breakpoint\ncycle: 50\n" in out


def test_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    typed = tmp_path / "typed"
    typed.write_text("step 4\n\nstep 3")
    with typed.open() as file:
        monkeypatch.setattr("sys.stdin", file)
        assert main(["debug", *SMALL]) == 0
    cycles = [line for line in capsys.readouterr().out.splitlines() if line.startswith("cycle: ")]
    assert cycles == ["cycle: 4", "cycle: 7"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--break", "op nothing"], "no operator of this name; known: conv1"),
        (["--script", "/no-such-script"], "--script /no-such-script: No such file"),
        (["--frobnicate"], "see npuviz debug --help"),
    ],
)
def test_bad_input(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["debug", *SMALL, *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("npuviz: error: ")
    assert captured.err.count("\n") == 1
    assert text in captured.err


def test_a_script_that_is_not_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "commands"
    script.write_bytes(b"run\n\xff")
    assert main(["debug", *SMALL, "--script", str(script)]) == 2
    assert "expected UTF-8 text, byte 4" in capsys.readouterr().err
