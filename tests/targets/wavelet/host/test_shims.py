import os
import subprocess

import pytest

from npuviz.base.errors import UsageError
from npuviz.cli.main import main
from npuviz.targets.wavelet.host.shims import environment, write_shims


def run(folder, *words):
    path = f"{folder}:{os.environ['PATH']}"
    return subprocess.run(words, capture_output=True, text=True, env={**os.environ, "PATH": path})


def test_cs_python_finds_the_names_of_the_runtime(tmp_path):
    assert main(["csl", "shims", str(tmp_path / "bin")]) == 0
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        "from cerebras.sdk.runtime.sdkruntimepybind import SdkRuntime, MemcpyDataType, MemcpyOrder\n"
        "from cerebras.sdk.runtime.sdkruntimepybind import SdkTarget, SimfabConfig, get_platform\n"
        "from cerebras.sdk.sdk_utils import memcpy_view, input_array_to_u32\n"
        "from cerebras.sdk import sdk_utils\n"
        "from cerebras.sdk.debug.debug_util import debug_util\n"
        "from cerebras.geometry.geometry import IntVector\n"
        "print(MemcpyDataType.MEMCPY_16BIT, MemcpyOrder.COL_MAJOR, IntVector(1, 2).y, *sys.argv[1:])\n"
    )
    found = run(tmp_path / "bin", "cs_python", str(script), "--name", "a b")
    assert found.stdout == "MemcpyDataType.MEMCPY_16BIT MemcpyOrder.COL_MAJOR 2 --name a b\n"


def test_cslc_fails_with_one_line(tmp_path):
    write_shims(tmp_path)
    found = run(tmp_path, "cslc", "none.csl", "--arch=wse3")
    assert found.returncode == 2
    assert found.stderr == "cslc: error: none.csl: no such file\n"


def test_the_debug_shell_compiles_and_says_what_else_it_does_not(tmp_path):
    write_shims(tmp_path)
    found = run(tmp_path, "sdk_debug_shell", "compile", "none.csl", "--arch=wse3")
    assert (found.returncode, found.stderr) == (2, "cslc: error: none.csl: no such file\n")
    found = run(tmp_path, "sdk_debug_shell", "visualize", "--artifact_dir", "out")
    assert found.returncode == 2
    assert found.stderr.startswith("sdk_debug_shell visualize: only compile has a stand-in")
    assert found.stderr.count("\n") == 1


def test_a_file_of_somebody_else_stays(tmp_path):
    (tmp_path / "cslc").write_text("#!/bin/sh\n")
    with pytest.raises(UsageError, match="not from npuviz"):
        write_shims(tmp_path)
    assert not (tmp_path / "cs_python").exists()
    assert (tmp_path / "cslc").read_text() == "#!/bin/sh\n"


def test_writing_twice_is_fine(tmp_path):
    write_shims(tmp_path)
    assert [path.name for path in write_shims(tmp_path)] == ["cslc", "sdk_debug_shell", "cs_python"]


def test_an_own_python_path_stays():
    found = environment({"PYTHONPATH": "/mine"})["PYTHONPATH"]
    assert found.endswith(":/mine")


@pytest.mark.parametrize("words", [["shims"], ["shims", "a", "b"], ["other"], ["coverage", "none"]])
def test_wrong_use_is_one_line(words, capsys):
    assert main(["csl", *words]) == 2
    assert capsys.readouterr().err.startswith("npuviz: error: csl")
