"""The example target, installed and driven as somebody outside the project would, and its promises."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from toychip.target import TARGET

from npuviz.base.errors import NpuvizError
from npuviz.base.progress import NoProgress
from npuviz.sim.stop import NO_STOPS
from npuviz.sim.target import LoadRequest
from tests.contract.registry import Case
from tests.contract.runs import Make, run_to
from tests.contract.test_contract import CHECKS

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "toychip"
SMALL = EXAMPLE / "small.toy"
CASE = Case("toychip", TARGET, lambda _folder: LoadRequest(SMALL))
# The last block is short, and the one slot is used again and again.
ODD = Case("toychip, wide", TARGET, lambda _folder: LoadRequest(SMALL, "wide", settings={"slots": "1"}))
CYCLES = 318


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package as pip installs it."""
    source = tmp_path_factory.mktemp("source") / "toychip"
    shutil.copytree(EXAMPLE, source, ignore=shutil.ignore_patterns("__pycache__"))
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
    how = ["--no-deps", "--no-build-isolation", "--target", str(folder), str(source)]
    done = subprocess.run([*pip, *how], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def npuviz(installed: Path, *arguments: str, **environment: str) -> str:
    paths = os.pathsep.join([str(installed), str(ROOT)])
    command = [sys.executable, "-m", "npuviz.cli.main", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=installed,
        env={**os.environ, "PYTHONPATH": paths, **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_is_found(installed: Path) -> None:
    assert "toychip" in npuviz(installed, "targets")


def test_it_runs_and_its_values_agree(installed: Path) -> None:
    summary = json.loads(npuviz(installed, "run", str(SMALL), "--json", "--check"))
    assert (summary["target"], summary["cycles"], summary["check"]["failed"]) == ("toychip", CYCLES, 0)


def test_uncompiled_it_does_the_same(installed: Path) -> None:
    summary = json.loads(npuviz(installed, "run", str(SMALL), "--json", NUMBA_DISABLE_JIT="1"))
    assert summary["cycles"] == CYCLES


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize("case", [CASE, ODD], ids=lambda case: case.name)
def test_promise(case: Case, check: Callable[[Make], None]) -> None:
    check(case.make)


def test_values_equal_numpy_and_a_wrong_byte_is_noticed() -> None:
    machine = run_to(CASE.make(), 1 << 40)
    assert machine.cycle == CYCLES
    assert TARGET.check(machine, NoProgress()).num_failed == 0
    place = machine.program.memory_map.of_tensor(3)
    assert place is not None
    machine.write_memory(place.memory, place.address, b"\x01")
    assert TARGET.check(machine, NoProgress()).first_divergence == "y"


def test_bytes_written_by_hand_flow_into_results() -> None:
    machine = CASE.make()
    machine.write_memory(0, 0, bytes(4))
    machine.advance(1 << 40, NO_STOPS, None)
    result = machine.tensor(3)
    assert result is not None
    assert result[0] == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "without mul or add"),
        ("input x 0\n", "expected 1..1048576 elements, found '0'"),
        ("input x 4\nmul y x z\n", "z is not defined"),
        ("input x 4\ninput x 4\n", "x is defined twice"),
        ("input x 4\ninput w 5\nadd y x w\n", "operands of 4 and 5 elements"),
        ("divide y x x\n", "expected input, mul or add, found 'divide'"),
        ("mul y\n", "mul takes 3 words, found 1"),
    ],
)
def test_a_wrong_text_is_one_line(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.toy"
    path.write_text(text)
    with pytest.raises(NpuvizError, match=message) as caught:
        TARGET.load(LoadRequest(path), NoProgress())
    assert "\n" not in str(caught.value)
