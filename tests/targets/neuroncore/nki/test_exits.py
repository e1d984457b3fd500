# A kernel file cannot choose the exit code by what it leaves for the end of the process.
import subprocess
import sys

import pytest

from tests.sweeps import quick
from tests.targets.neuroncore.nki.running import SECOND

KERNEL = (
    SECOND
    + """
import atexit, os
from atexit import register
from os import _exit
{handler}
@nki.jit
def kernel(x):
    return 1 / 0
"""
)


@quick("@atexit*", "atexit.register(print*")
@pytest.mark.parametrize(
    ("handler", "said"),
    [
        ("atexit.register(os._exit, 0)", ""),
        ("register(lambda: _exit(0))", ""),
        ("atexit.register(os.abort)", ""),
        ("@atexit.register\ndef last():\n    print('the end')\n    os._exit(5)", "the end"),
        ("atexit.register(print, 'never')\natexit.unregister(print)", ""),
    ],
)
def test_handlers_of_the_end_do_not_choose_the_exit_code(tmp_path, handler: str, said: str) -> None:
    path = tmp_path / "kernel.py"
    path.write_text(KERNEL.format(handler=handler))
    command = [sys.executable, "-m", "npuviz.cli.main", "run", str(path), "--shape", "x=4x4"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert not done.stdout
    line, *rest = done.stderr.splitlines()
    assert line.startswith("npuviz: error: kernel.py:")
    assert "ZeroDivisionError" in line
    assert "".join(rest) == said
