import hashlib
import json
import re
from pathlib import Path

import pytest

from npuviz.base.errors import ConditionError, ExportError, TargetError, UsageError
from npuviz.base.progress import CallbackProgress
from npuviz.debug.session import Session
from npuviz.sim.checks.findings import NO_ORDER
from npuviz.trace.bundle.bundle import open_bundle
from npuviz.workbench.headless.exit_codes import EXIT_DONE, EXIT_FAILED, EXIT_INTERRUPTED, EXIT_MISBEHAVED
from npuviz.workbench.headless.run import RunOptions, run_model
from npuviz.workbench.headless.summary_text import summary_text
from npuviz.workbench.opening import OpenOptions
from tests.toy.target import ToyTarget
from tests.workbench.toy_registry import toy_file

KEYS = {
    *("npuviz", "model", "target", "preset", "cycles", "stop", "seconds", "events", "units", "queues"),
    *("memories", "outputs", "check", "hazards"),
}


def test_summary_has_the_promised_shape_and_is_json(tmp_path: Path) -> None:
    result = run_model(toy_file(tmp_path), RunOptions(is_checked=True))
    summary = json.loads(json.dumps(result.summary))
    assert set(summary) >= KEYS
    assert set(summary["stop"]) == {"kind", "cycle", "detail"}
    assert set(summary["seconds"]) >= {"load", "compile", "simulate"}
    assert set(summary["check"]) >= {"tensors", "failed", "max_abs_err", "max_rel_err", "first_divergence"}
    assert summary["stop"]["kind"] == "finished"
    assert summary["cycles"] == summary["stop"]["cycle"] == 767
    assert summary["events"] > 0
    assert result.exit_code == EXIT_DONE
    for unit in summary["units"]:
        assert unit["utilization"] == pytest.approx(unit["busy_cycles"] / 767)


@pytest.mark.parametrize(
    ("title", "heading"),
    [("Roofline (75 % of GB/s)", "  roofline (75 % of GB/s)"), ("DMA transfers", "  DMA transfers")],
)
def test_headings_of_reports_keep_names_and_units(tmp_path: Path, title: str, heading: str) -> None:
    summary = run_model(toy_file(tmp_path), RunOptions()).summary
    summary["reports"] = [{"title": title, "columns": ["Line", "Bytes"], "rows": [["a", "12"]]}]
    lines = summary_text(summary).splitlines()
    at = lines.index(heading)
    assert [lines[at - 1], *lines[at + 1 : at + 4]] == ["", "  Line  Bytes", "  a     12", ""]


def test_hazards_are_listed_when_values_are_checked(tmp_path: Path) -> None:
    path = toy_file(tmp_path, json.dumps({"hazard_above": 300}))
    found = run_model(path, RunOptions(is_checked=True)).summary
    assert [hazard["instruction"] for hazard in found["hazards"]] == [98, 102, 110, 122]
    keys = {"kind", "level", "cycle", "unit", "instruction", "detail", "other", "place", "mend"}
    assert set(found["hazards"][0]) == keys
    assert "hazard    range at cycle" in summary_text(found)
    assert found["not_checked"] == [NO_ORDER]
    assert f"not checked  {NO_ORDER}" in summary_text(found)
    assert run_model(path, RunOptions()).summary["hazards"] == found["hazards"]
    cut = run_model(path, RunOptions(until=300)).summary
    assert (cut["hazards"], cut["not_checked"]) == ([], ["anything: the program has not ended"])
    unasked = run_model(path, RunOptions(looks=False))
    assert (unasked.summary["hazards"], unasked.exit_code) == ([], EXIT_DONE)
    assert unasked.summary["not_checked"]


def test_a_chip_that_misbehaves_is_no_success(tmp_path: Path) -> None:
    """Neither a stuck machine nor a hazard of the level error, whether values are checked or not."""
    for settings, reason in (
        ({"stuck_at": 9}, r"deadlock at cycle \d+"),
        ({"fault_at": 9}, r"fault at cycle \d+"),
        ({"hazard_above": 300}, r"hazard range at cycle \d+ and 3 more"),
    ):
        path = toy_file(tmp_path, json.dumps(settings))
        for is_checked in (False, True):
            result = run_model(path, RunOptions(is_checked=is_checked))
            assert result.exit_code == EXIT_MISBEHAVED
            assert result.summary["exit"]["code"] == EXIT_MISBEHAVED
            assert re.fullmatch(reason, result.summary["exit"]["reason"])
            assert "the simulated chip misbehaved" in summary_text(result.summary)
    stuck = run_model(toy_file(tmp_path, json.dumps({"stuck_at": 9})), RunOptions()).summary
    assert stuck["stop"]["kind"] == "deadlock"
    assert "Core[0].ST waits for computed >= 12" in stuck["stop"]["detail"]


def test_output_digest_is_that_of_the_bytes(tmp_path: Path) -> None:
    sessions: list[Session] = []
    result = run_model(toy_file(tmp_path), RunOptions(), on_session=sessions.append)
    machine = sessions[0].machine
    tensor = machine.tensor(machine.program.graph.outputs[0])
    assert tensor is not None
    assert result.summary["outputs"][0]["sha256"] == hashlib.sha256(tensor.tobytes()).hexdigest()


def test_seed_changes_values_and_the_same_seed_repeats_them(tmp_path: Path) -> None:
    path = toy_file(tmp_path)

    def digest(seed: int) -> str:
        return run_model(path, RunOptions(OpenOptions(seed=seed))).summary["outputs"][0]["sha256"]

    assert digest(1) == digest(1)
    assert digest(1) != digest(2)


def test_a_breakpoint_hit_is_done_and_an_unfinished_run_has_no_outputs(tmp_path: Path) -> None:
    result = run_model(toy_file(tmp_path), RunOptions(conditions=("instr 20",)))
    assert result.exit_code == EXIT_DONE
    assert result.summary["stop"]["kind"] == "breakpoint"
    assert result.summary["outputs"][0]["sha256"] is None


def test_until_stops_there(tmp_path: Path) -> None:
    assert run_model(toy_file(tmp_path), RunOptions(until=100)).summary["cycles"] == 100


def test_recording_writes_a_bundle_with_the_same_events(tmp_path: Path) -> None:
    path = toy_file(tmp_path)
    result = run_model(path, RunOptions(OpenOptions(record=tmp_path / "bundle")))
    reader = open_bundle(tmp_path / "bundle")
    assert reader.is_complete
    assert reader.end_cycle >= result.summary["cycles"]
    assert reader.model["summary"]["cycles"] == result.summary["cycles"]
    assert result.summary["events"] == run_model(path, RunOptions()).summary["events"]


def test_recording_nothing_changes_nothing_but_the_events(tmp_path: Path) -> None:
    path = toy_file(tmp_path)
    with_trace = run_model(path, RunOptions()).summary
    without = run_model(path, RunOptions(OpenOptions(is_recording=False))).summary
    assert without["events"] == 0
    for key in ("cycles", "units", "queues", "memories", "outputs"):
        assert without[key] == with_trace[key]


def test_exports_from_memory_and_from_a_bundle_are_equal(tmp_path: Path) -> None:
    path = toy_file(tmp_path)
    first, second = tmp_path / "a.pftrace", tmp_path / "b.pftrace"
    run_model(path, RunOptions(exports=(("perfetto", first),)))
    run_model(path, RunOptions(OpenOptions(record=tmp_path / "bundle"), exports=(("perfetto", second),)))
    assert first.stat().st_size > 1000
    assert first.read_bytes() == second.read_bytes()


def test_errors_before_anything_is_written(tmp_path: Path) -> None:
    path = toy_file(tmp_path)
    with pytest.raises(UsageError, match="unknown export format 'nope'"):
        run_model(path, RunOptions(exports=(("nope", tmp_path / "x"),)))
    with pytest.raises(ConditionError):
        run_model(path, RunOptions(OpenOptions(record=tmp_path / "bundle"), conditions=("what?",)))
    with pytest.raises(ExportError, match="nothing was recorded"):
        run_model(path, RunOptions(OpenOptions(is_recording=False), exports=(("perfetto", tmp_path / "x"),)))
    with pytest.raises(TargetError, match="--check needs the whole run"):
        run_model(path, RunOptions(until=5, is_checked=True))
    assert [item.name for item in tmp_path.iterdir()] == ["small.toy"]


def test_a_failed_check_is_exit_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = ToyTarget.check

    def off_by_one(self: ToyTarget, machine: object, progress: object) -> object:
        result = real(self, machine, progress)  # pyright: ignore[reportArgumentType]
        return type(result)(result.num_tensors, 1, float("nan"), 0.5, "t2", "equal")

    monkeypatch.setattr(ToyTarget, "check", off_by_one)
    result = run_model(toy_file(tmp_path), RunOptions(is_checked=True))
    assert result.exit_code == EXIT_FAILED
    assert result.summary["check"]["max_abs_err"] is None, "JSON has no NaN"
    assert "FAILED in 1" in summary_text(result.summary)


def test_interrupting_is_exit_130_with_a_summary(tmp_path: Path) -> None:
    path = toy_file(tmp_path, json.dumps({"blocks": 20000}))
    seen: list[Session] = []

    def interrupt(fraction: float, text: str) -> None:
        if seen and text.startswith("cycle"):
            seen[0].interrupt()

    progress = CallbackProgress(interrupt)
    result = run_model(path, RunOptions(), progress, seen.append)
    assert result.exit_code == EXIT_INTERRUPTED
    assert result.summary["stop"]["kind"] == "interrupted"
    assert result.summary["cycles"] > 0


def test_a_bundle_cannot_be_run(tmp_path: Path) -> None:
    run_model(toy_file(tmp_path), RunOptions(OpenOptions(record=tmp_path / "bundle")))
    with pytest.raises(UsageError, match="nothing to run"):
        run_model(tmp_path / "bundle", RunOptions())


def test_text_summary_names_the_essentials(tmp_path: Path) -> None:
    text = summary_text(run_model(toy_file(tmp_path), RunOptions(is_checked=True)).summary)
    assert "767" in text
    assert "Core[0].ALU" in text
    assert "passed, 7 tensors compared" in text


def test_warnings_are_shown_before_what_is_assumed(tmp_path: Path) -> None:
    summary = run_model(toy_file(tmp_path), RunOptions()).summary
    infos = [{"severity": "info", "kind": "assumed", "text": f"figure {number}"} for number in range(30)]
    warning = {"severity": "warning", "kind": "named", "text": "err_of_the_kernel: twice"}
    text = summary_text({**summary, "notes": [*infos, warning]})
    assert "warning: err_of_the_kernel: twice" in text
    assert "and 19 more notes" in text
