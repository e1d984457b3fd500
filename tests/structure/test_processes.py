"""Tests in several processes report what one process would, and who dies there is missed."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILE = """
import os
import pytest

@pytest.fixture(scope="session")
def maker():
    return os.getpid()

@pytest.mark.parametrize("number", range(3))
def test_shares_what_its_process_made(maker, number):
    assert maker == os.getpid() != int(os.environ["FIRST"])

def test_number_{number}_of_two():
    print("said in {number}")
    assert {number} != 1

def test_is_left_out():
    pytest.skip("for a reason")
"""


def run(folder: Path, *options: str) -> tuple[int, str]:
    """Exit code and text of the tests in a folder, run by two processes."""
    code = (
        "import os, sys, pytest; os.environ['FIRST'] = str(os.getpid()); sys.exit(pytest.main(sys.argv[1:]))"
    )
    words = [sys.executable, "-c", code, "-p", "tests.processes", "--processes", "2", "-c", "/dev/null"]
    found = subprocess.run(
        [*words, "-p", "no:hypothesispytest", "--rootdir", str(folder), *options, str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return found.returncode, found.stdout + found.stderr


def test_two_processes_report_what_one_would(tmp_path: Path):
    for number in range(4):
        (tmp_path / f"test_{number}.py").write_text(FILE.format(number=number))
    code, text = run(tmp_path)
    assert code == 1
    assert "1 failed, 15 passed, 4 skipped" in text, text
    assert "test_1.py::test_number_1_of_two\n" in text
    assert "E       assert 1 != 1" in text
    assert "said in 1" in text
    assert "said in 2" not in text


def test_who_dies_fails_and_the_others_go_on(tmp_path: Path):
    (tmp_path / "test_a.py").write_text("import os\ndef test_dies():\n    os.kill(os.getpid(), 9)\n")
    for number in (2, 3):
        (tmp_path / f"test_{number}.py").write_text(FILE.format(number=number))
    code, text = run(tmp_path)
    assert code == 1
    assert "1 failed, 8 passed, 2 skipped" in text, text
    assert "the process ended by signal 9: test_a.py::test_dies" in text
    assert "1 failed" in run(tmp_path, "-x")[1]
