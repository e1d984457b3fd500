"""The example repository is tested as an outsider would test it; assertions fail where they should."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import npuviz
from npuviz.base.errors import FormatError, UsageError
from npuviz.testing import (
    Budgets,
    assert_close,
    assert_counter,
    assert_cycles,
    assert_no_hazards,
    outputs,
    ran,
)

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "kernel_tests"


def pytest_in(folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "npuviz_pytest",
        "-p",
        "no:cacheprovider",
        *options,
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)


def test_the_example_repository_passes_and_names_what_got_slower(tmp_path: Path):
    folder = tmp_path / "example"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "pytest.ini").write_text("[pytest]\n")
    assert "2 passed" in pytest_in(folder, "--npuviz-update").stdout
    kernel = folder / "scale_add.py"
    add = "        nisa.tensor_tensor(dst=x, data1=x, data2=y, op=nl.add)\n"
    slow = "        nisa.tensor_scalar(dst=x, data=x, op0=nl.multiply, operand0=1.0)\n" * 40
    kernel.write_text(kernel.read_text().replace(add, slow + add))
    done = pytest_in(folder, "-k", "cost")
    assert "1 failed" in done.stdout
    assert "operators: scale_add.py:" in done.stdout
    assert "units: Core[0]." in done.stdout


WINDOW_TEST = """
import pytest
from npuviz.base.errors import NpuvizError, UsageError


def test_window(npuviz_window, tmp_path):
    window = npuviz_window("tiny_cnn.onnx", settings={"batch": 1})
    window.run()
    end = window.cycle
    window.go_to(end // 2)
    assert 0 < window.cycle == end // 2
    window.arrange(panels=["timeline"])
    assert [name for name, dock in window.widget.docks.all.items() if dock.isVisible()] == ["timeline"]
    timeline = window.picture()
    window.arrange("stepping", ["queues"])
    assert timeline.startswith(b"\\x89PNG") and window.picture() != timeline
    with pytest.raises(UsageError, match="nothing"):
        window.arrange(panels=["nothing"])
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    with pytest.raises(NpuvizError, match="bad.onnx"):
        npuviz_window(tmp_path / "bad.onnx")
"""


def test_a_window_is_driven_from_a_test(tmp_path: Path):
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_window.py").write_text(WINDOW_TEST)
    done = pytest_in(tmp_path)
    assert "1 passed" in done.stdout, done.stdout


def test_the_plugin_costs_nothing_where_it_is_not_used(tmp_path: Path):
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    heavy = "[m for m in sys.modules if m.split('.')[0] in ('npuviz', 'numpy')]"
    (tmp_path / "test_any.py").write_text(f"import sys\ndef test():\n    assert not {heavy}\n")
    assert "1 passed" in pytest_in(tmp_path).stdout


def test_assertions_fail_where_they_should(tmp_path: Path):
    with npuviz.open("tiny_cnn.onnx", settings={"batch": 1}) as session:
        with pytest.raises(AssertionError, match="has not ended"):
            assert_cycles(session, 10)
        budgets = Budgets(tmp_path / "budgets.json", is_updating=True)
        with pytest.raises(UsageError, match="not ended"):
            budgets.check(session, "tiny")
        ran(session)
        (values,) = outputs(session).values()
        assert_close(session, values)
        with pytest.raises(AssertionError, match=r"elements are wrong \(bfloat16 0.02 of the element"):
            assert_close(session, values + 1)
        largest = np.abs(values).max()
        near = values + values.dtype.type(0.01) * largest
        assert_close(session, near)
        with pytest.raises(
            AssertionError, match=r"rtol 1e-06, atol 1e-06\)\n  \[0, 0\]: found .*, expected "
        ):
            assert_close(session, near, rtol=1e-6)
        assert_close(session, values + 1, atol=1.5)
        with pytest.raises(AssertionError, match="shape"):
            assert_close(session, np.zeros(3))
        with pytest.raises(AssertionError, match="at most 10"):
            assert_cycles(session, 10)
        with pytest.raises(UsageError, match="no counter"):
            assert_counter(session, "nothing", 1)
        name, value = next(item for item in session.session.machine.summary().counters.items() if item[1])
        assert_counter(session, name, value)
        with pytest.raises(UsageError, match=rf"did you mean {name}"):
            assert_counter(session, f"{name.upper()}s", value)
        with pytest.raises(AssertionError, match=name):
            assert_counter(session, name, value - 1)
        assert_no_hazards(session)
        budgets.check(session, "tiny")
        file = tmp_path / "budgets.json"
        kept = json.loads(file.read_text())
        Budgets(file).check(session, "tiny")
        with pytest.raises(UsageError, match="no budget 'other'"):
            Budgets(file).check(session, "other")
        kept["tiny"]["cycles"] //= 2
        kept["tiny"]["units"]["Core[0].EX"] = 0
        file.write_text(json.dumps(kept))
        with pytest.raises(AssertionError, match=r"units: Core\[0\]\.EX: \+\d+ cycles"):
            Budgets(file).check(session, "tiny")
        file.write_text('{"tiny": 3}')
        with pytest.raises(FormatError, match="cycles"):
            Budgets(file).check(session, "tiny")
