"""The sources of all kernels, as one digest: what was compiled of other sources is of no use."""

import hashlib
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "_kernels"
"""What comes with the package beside its sources, made of them when that is built."""
_PATTERNS = "base/kernels/*.py", "**/*_kernels.py", "targets/*/kernels/**/*.py"


@cache
def digest_of_sources() -> str:
    """The same for the same sources; raises OSError."""
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted({path for pattern in _PATTERNS for path in ROOT.glob(pattern)}):
        digest.update(path.read_bytes())
    return digest.hexdigest()
