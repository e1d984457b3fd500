"""Files that scripts ask of nki.profile, nki.baremetal and nki.benchmark: NEFF, bundle, reports."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npuviz.base.errors import KernelWarning
from npuviz.targets.neuroncore.nki.calls.entry_points import baremetal, benchmark, profile
from npuviz.targets.neuroncore.nki.kernel import LAST
from npuviz.targets.neuroncore.nki.user_python import imported, stand_ins
from npuviz.workbench.opening import open_file
from tests.targets.neuroncore.nki.running import FIRST

KERNEL = f"""{FIRST}
def add(x, y):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x) + nl.load(y))
    return out
"""
X = np.arange(128 * 32, dtype=np.float32).reshape(128, 32)


@pytest.fixture
def add(tmp_path: Path) -> Any:
    path = tmp_path / "adding.py"
    path.write_text(KERNEL, encoding="utf-8")
    with stand_ins():
        return imported(path).add


def check_bundle(path: Path) -> None:
    """That a bundle opens, and is a trace of the last run."""
    reader = open_file(path).reader
    assert reader is not None
    assert reader.end_cycle == LAST[-1].cycles
    assert reader.num_intervals > 0


def test_a_profile_is_a_program_that_runs_the_same_and_a_trace_of_it(add: Any, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "profiles"
    assert (profile(working_directory=str(folder))(add)(X, X) == 2 * X).all()
    opened = open_file(folder / "file.neff")
    assert opened.session is not None
    opened.session.run()
    assert opened.session.machine.cycle == LAST[-1].cycles
    check_bundle(folder / "profile.ntff")
    report = json.loads((folder / "json_reports" / "profile.json").read_text())
    assert report["cycles"] == LAST[-1].cycles
    moved = [report["counters"][name] for name in ("dma_bytes", "hbm_read_bytes", "hbm_write_bytes")]
    assert moved == [3 * X.nbytes, 2 * X.nbytes, X.nbytes]


def test_each_nth_execution_has_a_trace(add: Any, tmp_path: Path) -> None:
    profile(add, working_directory=tmp_path, save_trace_name="t.ntff", num_execs=7, profile_nth=3)(X, X)
    assert {path.name for path in tmp_path.glob("*.ntff")} == {"t_exec_3.ntff", "t_exec_6.ntff"}
    check_bundle(tmp_path / "t_exec_6.ntff")
    assert len(list((tmp_path / "json_reports").iterdir())) == 2


def test_profiles_that_exist_are_replaced_only_if_asked(add: Any, tmp_path: Path) -> None:
    profile(add, working_directory=tmp_path)(X, X)
    (tmp_path / "file.neff").write_bytes(b"mine")
    with pytest.warns(KernelWarning, match=r"file.neff exists, nothing is written; give overwrite=True"):
        assert (profile(add, working_directory=tmp_path)(X, X) == 2 * X).all()
    assert (tmp_path / "file.neff").read_bytes() == b"mine"
    profile(add, working_directory=tmp_path, overwrite=True)(X, X)
    assert (tmp_path / "file.neff").read_bytes() != b"mine"
    check_bundle(tmp_path / "profile.ntff")


@pytest.mark.parametrize("options", [{}, {"working_directory": "profiles"}])
def test_a_profile_needs_an_absolute_folder(add: Any, options: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"working_directory is .*; give it an absolute path"):
        profile(add, **options)(X, X)


@pytest.mark.parametrize("run", [baremetal, benchmark])
def test_other_runs_write_what_they_are_asked_for(add: Any, tmp_path: Path, run: Any) -> None:
    names = {"save_neff_name": str(tmp_path / "a.neff"), "save_trace_name": str(tmp_path / "a.ntff")}
    run(**names)(add)[1](X, X)
    check_bundle(tmp_path / "a.ntff")
    assert (tmp_path / "a.neff").is_file()
    run(add)(X, X)
    assert {path.name for path in tmp_path.iterdir()} >= {"a.neff", "a.ntff"}
    assert not (tmp_path / "file.neff").exists()
