"""Run the subcommand `npuviz csl`."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from npuviz.base.errors import UsageError

ACTIONS = ("shims", "cslc", "python", "coverage")


def run(action: str, arguments: Sequence[str]) -> int:
    """Run one action; return its exit code. Raises NpuvizError, OSError."""
    if action == "shims":
        return _shims(arguments)
    if action == "cslc":
        from npuviz.targets.wavelet.host import cslc

        return cslc.run(arguments)
    if action == "python":
        from npuviz.targets.wavelet.host.shims import environment

        return subprocess.run([sys.executable, *arguments], env=environment(), check=False).returncode
    if action == "coverage":
        from npuviz.targets.wavelet.host import coverage

        return coverage.run(arguments)
    raise UsageError(f"csl {action[:60]}: expected {', '.join(ACTIONS)}")


def _shims(arguments: Sequence[str]) -> int:
    from npuviz.targets.wavelet.host.shims import write_shims

    if len(arguments) != 1 or arguments[0].startswith("-"):
        raise UsageError("csl shims: expected one folder; npuviz csl shims DIR")
    folder = Path(arguments[0])
    written = write_shims(folder)
    print(f"{', '.join(path.name for path in written)} in {folder}")
    print(f"export PATH={folder.resolve()}{os.pathsep}$PATH")
    return 0
