# Folders whose host program fails: exit code 1 with its line, whatever the folder's script ends with.
import json
import shutil
from pathlib import Path

import pytest

from npuviz.base.progress import NoProgress
from npuviz.cli.main import main
from npuviz.targets.wavelet.load.loader import open_program, run_command
from tests.sweeps import quick
from tests.targets.wavelet.host.programs import compile_folder
from tests.targets.wavelet.host.test_runtime import SCALE, SCALE_EXPORTS

HOST = """
import sys
from cerebras.sdk.runtime.sdkruntimepybind import SdkRuntime
def check(runner):
    {end}
runner = SdkRuntime("out")
runner.load()
runner.run()
runner.launch("scale", 3.0, 1)
{before}
runner.stop()
check(runner)
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory) -> Path:
    return compile_folder(tmp_path_factory.mktemp("csl"), SCALE, SCALE_EXPORTS)


def _folder(tmp_path: Path, compiled: Path, script: str, **hosts: str) -> Path:
    folder = tmp_path / "program"
    folder.mkdir()
    (folder / "commands.sh").write_text(f"cp -r {compiled} out\n{script}\n")
    for name, text in hosts.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def _run(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, list[str]]:
    """Exit code, its reason, the notes that are errors."""
    code = main(["run", str(path), "--record", "none", "--json"])
    summary = json.loads(capsys.readouterr().out)
    assert summary["exit"]["code"] == code
    return code, summary["exit"]["reason"], [n["text"] for n in summary["notes"] if n["severity"] == "error"]


def _host(end: str = "pass", before: str = "") -> str:
    return HOST.format(end=end, before=before)


@quick("first-third")
@pytest.mark.parametrize("names", ["first-third", "first-second-third-last"])
def test_each_host_that_fails_is_told_though_the_script_goes_on(names, tmp_path, compiled, capsys):
    hosts = {
        "first": _host("assert runner is None, 'no\\nluck'"),
        "second": _host(before="sys.exit(3)"),
        "third": "import nothing_of_this_name\n",
        "last": _host(),
    }
    hosts = {name: hosts[name] for name in names.split("-")}
    script = "\n".join(f"cs_python {name}.py" for name in hosts)
    code, reason, errors = _run(_folder(tmp_path, compiled, script, **hosts), capsys)
    begin = "the host program failed: "
    assert (code, reason) == (1, f"{begin}first.py:5: AssertionError: no luck")
    found = {
        "first": reason,
        "second": f"{begin}second.py:10: sys.exit(3)",
        "third": f"{begin}third.py:1: ModuleNotFoundError: No module named 'nothing_of_this_name'",
    }
    assert errors == [text for name, text in found.items() if name in hosts]


def test_a_compiled_folder_fails_until_a_host_does_not(tmp_path, compiled, capsys):
    hosts = {"bad": _host("raise ValueError(4)"), "good": _host("sys.exit(0)")}
    folder = _folder(tmp_path, compiled, "", **hosts)
    shutil.copytree(compiled, folder / "out")
    run_command("cs_python bad.py", folder, tmp_path, 60)
    text = "the host program failed: bad.py:5: ValueError: 4"
    assert _run(folder / "out", capsys) == (1, text, [text])
    assert main(["run", str(folder / "out"), "--record", "none"]) == 1
    assert f"error: {text}\n" in capsys.readouterr().out
    commands = tmp_path / "commands"
    commands.write_text("run\n")
    assert main(["debug", str(folder / "out"), "--script", str(commands)]) == 1
    assert capsys.readouterr().err == f"npuviz: {commands}: failed: {text}\n"
    run_command("cs_python good.py", folder, tmp_path, 60)
    assert _run(folder / "out", capsys) == (0, "", [])


@quick(first=1)
@pytest.mark.parametrize(
    ("command", "kind", "text"),
    [
        ("", "error", "gave the chip no command; exported: scale, stay"),
        ("runner.memcpy_h2d(0, np.ones(4, np.uint32), 0, 0, 1, 1, 4)", "warning", "launched none of the"),
    ],
)
def test_a_host_that_launches_nothing(tmp_path, compiled, command, kind, text):
    host = _host().replace('runner.launch("scale", 3.0, 1)', command)
    folder = _folder(tmp_path, compiled, "cs_python run.py", run=f"import numpy as np{host}")
    notes = open_program(folder, {}, NoProgress()).notes
    assert [note.severity for note in notes if f"the host program {text}" in note.text] == [kind]


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("", "commands.sh compiled, and no host program has loaded what it made"),
        ("echo sorry; exit 7", "commands.sh ended with exit code 7: sorry"),
    ],
)
def test_a_script_without_a_host_that_failed(tmp_path, compiled, script, text, capsys):
    text = f"the host program failed: {text}"
    assert _run(_folder(tmp_path, compiled, script), capsys) == (1, text, [text])


@quick("*-1")
@pytest.mark.parametrize(("then", "failures"), [("pass", 0), ('runner.launch("scale", 3.0, 1)', 1)])
def test_a_chip_that_misbehaves_is_told_as_such(tmp_path, compiled, then, failures, capsys):
    """A function that does not unblock further commands; the host fails where it has one."""
    host = _host(before=then).replace('"scale", 3.0, 1', '"stay"', 1)
    code, reason, errors = _run(_folder(tmp_path, compiled, "cs_python run.py", run=host), capsys)
    assert (code, reason.partition(" ")[0], len(errors)) == (3, "deadlock", failures)
