"""Host programs in the place of `cs_python`: shifts as in NumPy 1, packages that are missing."""

import subprocess
import sys

import pytest

from npuviz.targets.wavelet.host import script
from npuviz.targets.wavelet.host.shims import FAILURES_VARIABLE, environment


def run(folder, text, *words, **others):
    for name, part in {"run": text, **others}.items():
        (folder / f"{name}.py").write_text(text if name == "run" else part)
    command = [sys.executable, "-P", "-m", "npuviz.targets.wavelet.host.script", "run.py", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment())


STAMP = """
import numpy as np
def make_u48(words):
    return words[0] + (words[1] << 16) + (words[2] << 32)
"""


def test_a_stamp_of_16_bit_words_is_a_48_bit_number(tmp_path):
    text = """
import sys
import numpy as np
from stamp import make_u48
words = np.zeros(3).astype(np.uint16)
words[0], words[1], words[2] = 7, 3, 2
print(make_u48(words), (words[1] << 16) - words[0], __name__, sys.argv, 1 << 3, words << 1)
"""
    found = run(tmp_path, text, "--name", "out", stamp=STAMP)
    assert found.stderr == ""
    expected = 7 + (3 << 16) + (2 << 32)
    assert found.stdout == f"{expected} {(3 << 16) - 7} __main__ ['run.py', '--name', 'out'] 8 [14  6  4]\n"
    assert not (tmp_path / "__pycache__").exists()


def test_products_of_matrices_are_summed_in_order(tmp_path):
    text = """
import numpy as np
a = np.arange(56 * 56, dtype=np.float32).reshape(56, 56)
ordered = np.zeros_like(a)
for k in range(56):
    ordered += a[:, k : k + 1] * a[k : k + 1, :]
print((np.dot(a, a) == ordered).all())
"""
    assert run(tmp_path, text).stdout == "True\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tomli", "run.py:2: imports tomli, which is not installed: pip install npuviz[csl]"),
        ("cerebras.sdk.client", "run.py:2: imports cerebras.sdk.client; npuviz has the interface of the sim"),
    ],
)
def test_a_missing_package_is_one_line(name, text, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "run.py").write_text(f"\nimport {name}\n")
    for owner, attribute in ((sys, "argv"), (sys, "path"), (sys, "path_hooks")):
        monkeypatch.setattr(owner, attribute, list(getattr(owner, attribute)))
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    kept = tmp_path / "failures"
    monkeypatch.setenv(FAILURES_VARIABLE, str(kept))
    assert script.run([str(tmp_path / "run.py")]) == 2
    line = capsys.readouterr().err
    assert text in line
    assert line.count("\n") == 1
    assert text in kept.read_text(), "what `npuviz run` shows of a folder's own script"


def test_other_errors_stay_what_they_are(tmp_path):
    found = run(tmp_path, "\nimport nothing_of_this_name\n")
    assert found.returncode == 1
    assert found.stderr.endswith("ModuleNotFoundError: No module named 'nothing_of_this_name'\n")
    assert 'File "run.py", line 2' in found.stderr


def test_a_file_that_is_not_there(tmp_path, capsys):
    assert script.run([str(tmp_path / "none.py")]) == 2
    assert capsys.readouterr().err.endswith("none.py: no such file\n")


def test_a_failure_names_the_last_line_of_the_programs_own_files(tmp_path):
    path = tmp_path / "run.py"
    path.write_text("def f():\n  exec('1 / 0')\n\nf()\n")
    with pytest.raises(ZeroDivisionError) as found:
        exec(script.code_of(path.read_bytes(), "run.py"), {})
    assert script.failure_of(found.value, path) == "run.py:2: ZeroDivisionError: division by zero"
