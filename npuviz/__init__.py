"""npuviz: a visual, cycle-level debugger for neural processing units.

    session = npuviz.open("model.onnx", target="systolic")

The public names are those of `npuviz.api`; docs/automation.md has them. Importing
npuviz imports nothing else.
"""

import atexit
import importlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

__version__ = "0.1.0"

_PUBLIC = {
    "Answer": "Answer",
    "DebugSession": "DebugSession",
    "OpenArguments": "OpenArguments",
    "Picture": "Picture",
    "open": "open_session",
    "races": "races",
}
"""Name -> name in npuviz.api, for `__getattr__`; `__init__.pyi` has their types."""


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'npuviz' has no attribute {name!r}")
    found = getattr(importlib.import_module("npuviz.api"), _PUBLIC[name])
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})


def _use_kernel_cache() -> None:
    """Keep compiled kernels in a folder named after their sources; one for this process if none can be.

    numba looks only at the file of the outermost function when it decides whether a cached kernel is
    current: a change in an inner kernel file would go unseen.
    """
    if "NUMBA_CACHE_DIR" in os.environ:
        return
    from npuviz.base.kernels.sources import digest_of_sources

    folder = _cache_folder() / "npuviz" / "kernels" / digest_of_sources()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        is_usable = os.access(folder, os.R_OK | os.W_OK | os.X_OK)
    except OSError:
        is_usable = False
    if not is_usable:
        # numba cannot do without one.
        folder = Path(tempfile.mkdtemp(prefix="npuviz-kernels-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        os.environ["NPUVIZ_KERNELS_TEMPORARY"] = "1"
    os.environ["NUMBA_CACHE_DIR"] = str(folder)


def _cache_folder() -> Path:
    given = os.environ.get("XDG_CACHE_HOME")
    if given:
        return Path(given)
    try:
        return Path.home() / ".cache"
    except RuntimeError:
        return Path(os.devnull)  # nobody's home


_use_kernel_cache()
