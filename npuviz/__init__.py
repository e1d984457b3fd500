"""npuviz: a visual, cycle-level debugger for neural processing units."""

import hashlib
import os
from pathlib import Path

__version__ = "0.1.0"


def _use_kernel_cache() -> None:
    """Keep compiled kernels in a folder named after their sources.

    numba looks only at the file of the outermost function when it decides whether a cached kernel is
    current: a change in an inner kernel file would go unseen.
    """
    if "NUMBA_CACHE_DIR" in os.environ:
        return
    root = Path(__file__).parent
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted({*root.rglob("*_kernels.py"), *root.glob("targets/*/kernels/**/*.py")}):
        digest.update(path.read_bytes())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    os.environ["NUMBA_CACHE_DIR"] = str(cache / "npuviz" / "kernels" / digest.hexdigest())


_use_kernel_cache()
