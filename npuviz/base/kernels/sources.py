"""Compute one digest of the sources of all kernels: code compiled from other sources is not used."""

import hashlib
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "_kernels"
"""Folder of files that come with the package and are generated from its sources when it is built."""
_PATTERNS = "base/kernels/*.py", "**/*_kernels.py", "targets/*/kernels/**/*.py"


@cache
def digest_of_sources() -> str:
    """Return a digest that is equal for equal sources. Raises OSError."""
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted({path for pattern in _PATTERNS for path in ROOT.glob(pattern)}):
        digest.update(path.read_bytes())
    return digest.hexdigest()
