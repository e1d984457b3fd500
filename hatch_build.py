"""What the wheel has beside the sources: code of kernels, so that a first start need not wait for any."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LEAVE_OUT = "NPUVIZ_WITHOUT_KERNELS"
"""Set where a wheel is wanted at once: its first start is slower."""


class CustomBuildHook(BuildHookInterface):
    """Compiles into npuviz/_kernels before files are gathered; a wheel without them works too."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the code, except for an editable installation, which has the sources that change."""
        if version == "editable" or os.environ.get(LEAVE_OUT):
            return
        folder = Path(self.root) / "npuviz" / "_kernels"
        paths = os.pathsep.join([self.root, *filter(None, sys.path)])
        command = [sys.executable, "-m", "npuviz.base.kernels.shipping", str(folder)]
        environment = {**os.environ, "PYTHONPATH": paths}
        if subprocess.run(command, env=environment, check=False).returncode:
            self.app.display_warning("kernels are not compiled: the first start will be slower")
