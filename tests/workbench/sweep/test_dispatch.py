"""Sweeps: processes of their own, a scheduler that is there, resuming, plans that ask wrongly."""

import os
import socket
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from npuviz.base.errors import UsageError
from npuviz.workbench.sweep import scheduler as sweep
from npuviz.workbench.sweep.dispatch import SweepOptions, run_sweep
from npuviz.workbench.sweep.plan import SweepPlan, read_plan
from npuviz.workbench.sweep.results import read_results
from tests.workbench.toy_registry import toy_file

PLAN = """
[base]
model = "{model}"
[axes]
seed = [1, 2, 3]
until = [50, 100]
[metrics]
cycles = "cycles"
[derived]
double = "2 * cycles"
"""


@pytest.fixture
def scheduler() -> Iterator[str]:
    """A Dask cluster of threads in this process, which knows the toy machine."""
    import dask.config as dask_config
    from distributed import LocalCluster

    with dask_config.set({"distributed.worker.daemon": False}):
        rules: dict[str, Any] = {"processes": False, "dashboard_address": "127.0.0.1:0", "silence_logs": 50}
        made: Any = LocalCluster(n_workers=1, threads_per_worker=2, protocol="tcp", host="127.0.0.1", **rules)
        with made:
            yield made.scheduler_address


def plan_of(tmp_path: Path, text: str = PLAN) -> SweepPlan:
    path = tmp_path / "plan.toml"
    path.write_text(text.format(model=toy_file(tmp_path)), encoding="utf-8")
    return read_plan(path)


def test_runs_are_kept_and_not_repeated(tmp_path: Path, scheduler: str) -> None:
    plan, out = plan_of(tmp_path), tmp_path / "out"
    options = SweepOptions(out, scheduler=scheduler)
    first = run_sweep(plan, options)
    assert (first.executed, first.reused, first.failed) == (6, 0, 0)
    assert first.results.columns["cycles"].tolist() == [50, 100, 50, 100, 50, 100]
    assert first.results.columns["double"].tolist() == [100, 200, 100, 200, 100, 200]
    times = {path.name: path.stat().st_mtime_ns for path in (out / "runs").iterdir()}
    assert len(times) == 6
    # As after a kill: two results are missing, one was half written.
    names = sorted(times)
    (out / "runs" / names[0]).unlink()
    (out / "runs" / names[1]).write_text("{", encoding="utf-8")
    (out / "results.parquet").unlink()
    again = run_sweep(plan, options)
    assert (again.executed, again.reused) == (2, 4)
    after = {path.name: path.stat().st_mtime_ns for path in (out / "runs").iterdir()}
    assert {name for name in after if after[name] != times[name]} == set(names[:2])
    assert again.results.columns["cycles"].tolist() == first.results.columns["cycles"].tolist()
    assert read_results(out).points == plan.points
    # All done: no cluster is asked for.
    third = run_sweep(plan, SweepOptions(out, scheduler="tcp://127.0.0.1:1"))
    assert (third.executed, third.reused) == (0, 6)
    assert run_sweep(plan, SweepOptions(out, scheduler=scheduler, is_fresh=True)).executed == 6


def test_a_plan_that_asks_for_what_is_not_there_stops_at_once(tmp_path: Path, scheduler: str) -> None:
    plan = plan_of(tmp_path, PLAN.replace("[base]", '[base]\ntarget = "abacus"'))
    with pytest.raises(UsageError, match="unknown target 'abacus'"):
        run_sweep(plan, SweepOptions(tmp_path / "out", scheduler=scheduler))


def test_a_run_that_fails_is_a_result(
    tmp_path: Path, scheduler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, out = plan_of(tmp_path), tmp_path / "out"
    real = sweep.run_one

    def fails_sometimes(run: Any) -> Any:
        if run.seed == 2:
            raise RuntimeError("broken\nworker")
        return real(run)

    monkeypatch.setattr(sweep, "run_one", fails_sometimes)
    outcome = run_sweep(plan, SweepOptions(out, scheduler=scheduler))
    assert (outcome.failed, outcome.errors) == (2, ("RuntimeError: broken worker",))
    assert outcome.results.statuses == ("done", "done", "broken", "broken", "done", "done")
    # What broke in npuviz or a worker is tried again.
    monkeypatch.setattr(sweep, "run_one", real)
    again = run_sweep(plan, SweepOptions(out, scheduler=scheduler))
    assert (again.executed, again.reused, again.failed) == (2, 4, 0)


def test_an_interrupted_sweep_leaves_a_table(
    tmp_path: Path, scheduler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, out = plan_of(tmp_path), tmp_path / "out"
    count = 0

    class Impatient:
        def report(self, fraction: float, text: str = "") -> None:
            nonlocal count
            count += fraction > 0
            if count == 3:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_sweep(plan, SweepOptions(out, scheduler=scheduler), Impatient())
    table = read_results(out)
    assert sum(status == "done" for status in table.statuses) == 3
    assert {error for error in table.errors if error} == {"not run yet"}
    assert run_sweep(plan, SweepOptions(out, scheduler=scheduler)).reused == 3


def test_no_scheduler_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "CONNECT_SECONDS", 1)
    for address in ("tcp://127.0.0.1:1", "nonsense://x", "tcp://"):
        with pytest.raises(UsageError) as caught:
            run_sweep(plan_of(tmp_path), SweepOptions(tmp_path / "out", scheduler=address))
        assert f"--scheduler {address}: no Dask scheduler answers there" in str(caught.value)
        assert "\n" not in str(caught.value)


CORES = """
[base]
model = "tiny_cnn.onnx"
preset = "edge-8x8"
[axes.set]
cores = {cores}
"""


class Watcher:
    """Does something when the first run is done."""

    def __init__(self, act: Callable[[], None]) -> None:
        self._act = act
        self.is_done = False

    def report(self, fraction: float, text: str = "") -> None:
        if fraction > 0 and not self.is_done:
            self.is_done = True
            self._act()


def plan_of_cores(tmp_path: Path, cores: list[int]) -> SweepPlan:
    path = tmp_path / "plan.toml"
    path.write_text(CORES.format(cores=cores), encoding="utf-8")
    return read_plan(path)


def workers() -> list[psutil.Process]:
    """The worker processes of this one."""
    children = psutil.Process().children(recursive=True)
    return [child for child in children if "spawn_main" in " ".join(child.cmdline())]


def listening(processes: Iterable[psutil.Process]) -> list[str]:
    """What the processes listen on, from the tables of the kernel: TCP, UDP, and unix sockets."""
    inodes: dict[str, str] = {}
    for table in ("tcp", "tcp6", "udp", "udp6"):
        for words in map(str.split, Path(f"/proc/net/{table}").read_text().splitlines()[1:]):
            if table.startswith("udp") or words[3] == "0A":
                inodes[words[9]] = f"{table} {words[1]}"
    for words in map(str.split, Path("/proc/net/unix").read_text().splitlines()[1:]):
        if int(words[3], 16) & 0x10000:
            inodes[words[6]] = f"unix {words[7:]}"
    found: list[str] = []
    for process in processes:
        for file in Path(f"/proc/{process.pid}/fd").iterdir():
            target = os.readlink(file) if file.is_symlink() else ""
            inode = target.removeprefix("socket:[").removesuffix("]")
            if target.startswith("socket:") and inode in inodes:
                found.append(f"{process.pid}: {inodes[inode]}")
    return found


# Quicker: `test_nothing_listens_during_a_sweep`.
@pytest.mark.sweep
def test_processes_of_its_own(tmp_path: Path) -> None:
    outcome = run_sweep(plan_of_cores(tmp_path, [1, 2]), SweepOptions(tmp_path / "out", processes=1))
    assert (outcome.executed, outcome.failed) == (2, 0)
    cycles = outcome.results.columns["cycles"]
    assert 0 < cycles[1] < cycles[0]
    assert not workers()


def test_nothing_listens_during_a_sweep(tmp_path: Path) -> None:
    found: list[list[str]] = []
    numbers: list[int] = []

    def look() -> None:
        numbers.append(len(workers()))
        found.append(listening([psutil.Process(), *psutil.Process().children(recursive=True)]))

    before = listening([psutil.Process()])
    options = SweepOptions(tmp_path / "out", processes=2)
    outcome = run_sweep(plan_of_cores(tmp_path, [1, 2]), options, Watcher(look))
    assert (numbers, found) == ([2], [before])
    assert (outcome.executed, outcome.failed) == (2, 0)
    cycles = outcome.results.columns["cycles"]
    assert 0 < cycles[1] < cycles[0]
    assert not workers()


def test_the_look_for_listening_sockets_sees_them(tmp_path: Path) -> None:
    before = set(listening([psutil.Process()]))
    with socket.socket() as one, socket.socket(socket.AF_UNIX) as other:
        one.bind(("127.0.0.1", 0))
        one.listen()
        other.bind(str(tmp_path / "socket"))
        other.listen()
        assert len(set(listening([psutil.Process()])) - before) == 2


def test_a_worker_that_dies_takes_one_run_with_it(tmp_path: Path) -> None:
    plan = plan_of_cores(tmp_path, [1, 2, 3])
    outcome = run_sweep(
        plan, SweepOptions(tmp_path / "out", processes=1), Watcher(lambda: workers()[0].kill())
    )
    assert sorted(outcome.results.statuses) == ["broken", "done", "done"]
    assert outcome.errors == ("the worker died",)
    assert not workers()
    again = run_sweep(plan, SweepOptions(tmp_path / "out", processes=1))
    assert (again.executed, again.reused, again.failed) == (1, 2, 0)
