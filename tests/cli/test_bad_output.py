# Bundles and what is written from them: damaged, unwritable, killed, interrupted; and what scripts rely on.
import json
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from npuviz.cli.main import main
from tests.cli.refusals import CONFIG, MODEL, ROOT, SMALL, Captured, done, names, refused


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of the small model."""
    path = tmp_path_factory.mktemp("recorded") / "run.npuviz"
    assert main(["run", *SMALL, "--record", str(path), "--json"]) == 0
    return path


@pytest.fixture
def bundle(recorded: Path, tmp_path: Path) -> Path:
    """A bundle that a test may damage."""
    return shutil.copytree(recorded, tmp_path / "run.npuviz")


def test_damaged_bundles(bundle: Path, capsys: Captured) -> None:
    for path in sorted(bundle.glob("*.parquet")):
        data = path.read_bytes()
        for damaged in (b"", data[:-7], data[:20] + b"\0\0\0\0" + data[24:]):
            path.write_bytes(damaged)
            assert path.name in refused(["query", str(bundle), "select count(*) from slices"], capsys)
        path.unlink()
        assert path.name in refused(["query", str(bundle), "select 1"], capsys)
        path.write_bytes(data)
    done(["query", str(bundle), "select 1"], capsys)


@pytest.mark.parametrize("field", ["format", "version", "schema", "parts", "end_cycle"])
@pytest.mark.parametrize("value", [None, -1, 10**30, "x", [1], {"a": 1}])
def test_damaged_manifests(field: str, value: object, bundle: Path, tmp_path: Path, capsys: Captured) -> None:
    manifest = bundle / "manifest.json"
    data = json.loads(manifest.read_text())
    assert field in data
    data[field] = value
    manifest.write_text(json.dumps(data))
    out = tmp_path / "out"
    for arguments in (["info", str(bundle)], ["export", str(bundle), "-f", "csv", "-o", str(out)]):
        assert "manifest.json" in refused(arguments, capsys)
    assert not out.exists()


@pytest.mark.parametrize("window", ["5", "5:5", "9:3", "-5:3", "a:b", "1:2:3", "0:" + "9" * 30, "9999999:"])
@pytest.mark.parametrize("form", ["perfetto", "csv", "parquet"])
def test_windows(window: str, form: str, recorded: Path, tmp_path: Path, capsys: Captured) -> None:
    arguments = ["export", str(recorded), "-f", form, "-o", str(tmp_path / "out"), f"--window={window}"]
    assert "window" in refused(arguments, capsys)
    assert names(tmp_path) == []


def test_exports_that_cannot_be_written(recorded: Path, tmp_path: Path, capsys: Captured) -> None:
    def text(form: str, out: str | Path) -> str:
        return refused(["export", str(recorded), "-f", form, "-o", str(out)], capsys)

    before = names(recorded)
    assert "known: csv, parquet, perfetto" in text("bogus", tmp_path / "x")
    assert "found a folder" in text("perfetto", tmp_path)
    assert "found a folder" in text("perfetto", "/")
    assert "cannot write" in text("perfetto", tmp_path / "no" / "x")
    assert "is a trace bundle" in text("csv", recorded)
    assert names(recorded) == before
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    "sql", ["", "select", "select * from nope", "select nope from slices", "drop table slices", "\x01"]
)
def test_broken_sql(sql: str, recorded: Path, capsys: Captured) -> None:
    assert "query: " in refused(["query", str(recorded), sql], capsys)


def test_answers_of_absurd_size(recorded: Path, capsys: Captured) -> None:
    text = refused(["query", str(recorded), "select * from range(1000000000000)"], capsys)
    assert "more than 1000000 rows" in text


@pytest.mark.parametrize("size", ["0x0", "1x1", "99999x99999", "-5x5", "800", "800x", "\u00b2x\u00b2"])
def test_pictures_of_absurd_size(size: str, tmp_path: Path, capsys: Captured) -> None:
    refused(["shot", str(MODEL), "-o", str(tmp_path / "x.png"), "--size", size], capsys)
    assert names(tmp_path) == []


# ---- the text debugger

COMMANDS = """\
break op conv2|condition
breakpoints|breakpoints
run|stop
back|cycle
back 7|cycle
runback|stop
goto 1000|cycle
step|cycle
step 5|cycle
next Core[0].LD|cycle
previous Core[0].LD|cycle
print Core[0].LD.occupancy|value
mem DRAM 0 33 float32|rows
set Core[0].LD.occupancy 1|error
who Core[0].SPAD 0|writer
why Core[0].EX 500|unit
queues|queues
units|units
hazards|hazards
digest|digest
info|cycle
restart|cycle
help|commands
delete 1|deleted
goto -1|error
goto 99999999999999999999|error
mem DRAM 0 -1|error
mem DRAM 0xffffffffffff 16|error
mem DRAM 0 999999999999|error
mem NOPE 0 4|error
mem DRAM 0 4 nope|error
who Core[0].SPAD 999999999|error
why nope|error
next nope|error
print nope|error
print "|error
delete 99|error
break cycle ==|error
step 0|error
nonsense|error
"""


@pytest.mark.parametrize("record", [[], ["--record", "none"]])
def test_every_debugger_command_answers(record: list[str], tmp_path: Path, capsys: Captured) -> None:
    lines, keys = zip(*(line.split("|") for line in COMMANDS.splitlines()), strict=True)
    script = tmp_path / "commands"
    script.write_text("\n".join([*lines, "quit", "info"]))
    assert main(["debug", *SMALL, "--script", str(script), "--json", *record]) == 2
    out, error = capsys.readouterr()
    assert error.startswith(f"npuviz: error: {script}: a command failed: ")
    answers = [json.loads(line) for line in out.splitlines()]
    assert len(answers) == len(lines)
    for line, key, answer in zip(lines, keys, answers, strict=True):
        assert key in answer, (line, answer)
        assert ("error" in answer) == (key == "error"), (line, answer)
    cycles = [answer.get("cycle") for answer in answers]
    assert cycles[3] == cycles[2] - 1
    assert cycles[4] == cycles[3] - 7
    assert cycles[6:9] == [1000, 1001, 1006]


# ---- the summary that scripts rely on


def test_run_json_has_the_fields_of_the_contract(capsys: Captured) -> None:
    summary = json.loads(done(["run", *SMALL, "--json", "--check"], capsys))
    assert {"npuviz", "model", "target", "preset", "cycles", "events"} <= set(summary)
    assert set(summary["stop"]) == {"kind", "cycle", "detail"}
    assert {"load", "compile", "simulate"} <= set(summary["seconds"])
    assert {"tensors", "failed", "max_abs_err", "max_rel_err", "first_divergence"} <= set(summary["check"])
    assert summary["hazards"] == []
    for unit in summary["units"]:
        parts = {"busy_cycles", "waiting_cycles", "idle_cycles"}
        assert set(unit) == {"name", "utilization", *parts}
        assert sum(unit[part] for part in parts) == summary["cycles"]
        assert unit["utilization"] == pytest.approx(unit["busy_cycles"] / summary["cycles"])
    for queue in summary["queues"]:
        assert set(queue) == {"name", "peak", "capacity"}
        assert 0 < queue["peak"] <= (queue["capacity"] or queue["peak"])
    for memory in summary["memories"]:
        assert set(memory) == {"name", "peak_bytes", "bytes"}
        assert 0 < memory["peak_bytes"] <= memory["bytes"]
    [output] = summary["outputs"]
    assert set(output) == {"name", "shape", "dtype", "sha256"}
    assert output["shape"] == [1, 10]
    assert len(output["sha256"]) == 64


def test_queues_of_the_summary_can_be_broken_on(capsys: Captured) -> None:
    for queue in json.loads(done(["run", *SMALL, "--json"], capsys))["queues"]:
        condition = f"queue {queue['name']} >= {queue['peak']}"
        stopped = json.loads(done(["run", *SMALL, "--json", "--break", condition], capsys))
        assert stopped["stop"]["kind"] == "breakpoint", condition


# ---- killed, interrupted, no space


def child(code: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """npuviz in a process of its own, after `code`."""
    return subprocess.run(
        [sys.executable, "-c", f"{code}\nsys.exit(main(sys.argv[1:]))", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )


HEAD = "import os, signal, sys\nfrom npuviz.cli.main import main\n"


def test_a_query_that_nothing_can_interrupt_ends_with_the_program(bundle: Path) -> None:
    sql = "select levenshtein(repeat('a', 1000000), repeat('b', 1000000))"
    done = subprocess.run(
        [sys.executable, "-m", "npuviz.cli.main", "query", bundle, sql, "--timeout", "0.2"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        timeout=300,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("npuviz: error: query: ended after 0.2 s; ask for less")
    assert done.stderr.count("\n") == 1


def test_a_killed_run_leaves_the_earlier_bundle_and_readable_remains(bundle: Path, capsys: Captured) -> None:
    before = {path.name: path.read_bytes() for path in bundle.iterdir()}
    code = HEAD + (
        "from npuviz.trace.bundle.bundle import BundleWriter\n"
        "BundleWriter._finish = lambda self, end_cycle: os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    found = child(code, "run", *SMALL, "--record", str(bundle))
    assert found.returncode == -signal.SIGKILL
    assert {path.name: path.read_bytes() for path in bundle.iterdir()} == before
    [remains] = [path for path in bundle.parent.iterdir() if path != bundle]
    assert remains.name.startswith(f".{bundle.name}.partial-")
    assert json.loads(done(["info", str(remains), "--json"], capsys))["complete"] is False
    done(["run", *SMALL, "--record", str(bundle)], capsys)
    assert json.loads(done(["info", str(bundle), "--json"], capsys))["complete"] is True


def test_ctrl_c_while_running_gives_what_there_is(tmp_path: Path, capsys: Captured) -> None:
    code = HEAD + (
        "from npuviz.debug.runner import Runner\n"
        "real = Runner._advance_slice\n"
        "def advance(self, now, until, rows):\n"
        "    if now > 1000: os.kill(os.getpid(), signal.SIGINT)\n"
        "    return real(self, now, min(until, now + 64), rows)\n"
        "Runner._advance_slice = advance\n"
    )
    bundle, out = tmp_path / "run.npuviz", tmp_path / "run.pftrace"
    options = ["--json", "--record", str(bundle), "--export", f"perfetto:{out}"]
    found = child(code, "run", *SMALL, *options)
    assert found.returncode == 130, found.stderr
    summary = json.loads(found.stdout)
    assert summary["stop"]["kind"] == "interrupted"
    assert 1000 < summary["cycles"] < 1200
    assert json.loads(done(["info", str(bundle), "--json"], capsys))["cycles"] == summary["cycles"]
    assert names(tmp_path) == ["run.npuviz", "run.pftrace"]


def test_no_space_for_what_is_written(tmp_path: Path) -> None:
    """In one process for all forms: after an attempt that failed, the next one fails like the first."""
    outs = {form: tmp_path / form / "out" for form in ("record", "perfetto", "csv", "parquet")}
    for out in outs.values():
        out.parent.mkdir()
    code = HEAD + (
        "import resource\n"
        # Only now: what is compiled for the first time may be kept.
        f"main(['run', {str(MODEL)!r}, '--config', {str(CONFIG)!r}, '--until', '0', '--json'])\n"
        "sys.stdout.flush()\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2048, resource.RLIM_INFINITY))\n"
        "for option in sys.argv.pop().split(';'):\n"
        "    code = main(sys.argv[1:] + option.split())\n"
        "    print(f'{option}: exit code {code}', file=sys.stderr)\n"
    )
    options = [
        f"--record {out}" if form == "record" else f"--export {form}:{out}" for form, out in outs.items()
    ]
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 2048
    # The run after the loop, which writes nothing, has the space that it needs.
    found = child(code, "run", *SMALL, ";".join(options))
    assert found.returncode == 0, found.stderr
    lines = found.stderr.splitlines()
    assert len(lines) == 2 * len(options)
    for option, error, ending in zip(options, lines[::2], lines[1::2], strict=True):
        assert ending == f"{option}: exit code 2"
        assert error.startswith("npuviz: error: ")
        assert "File too large" in error
    assert [names(out.parent) for out in outs.values()] == [[]] * len(outs)
