"""Put a finished folder in the place of an earlier one without ever losing both."""

import ctypes
import os
import shutil
from pathlib import Path

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def publish_folder(finished: Path, place: Path) -> None:
    """Rename `finished` to `place`; a folder that is already there is replaced and deleted.

    Where the file system can exchange two names this is one step; elsewhere the old folder is moved
    aside first and moved back if the second rename fails. Raises OSError.
    """
    if not place.exists():
        os.rename(finished, place)
        return
    if _exchange(finished, place):
        shutil.rmtree(finished, ignore_errors=True)
        return
    aside = place.with_name(f".{place.name}.previous-{os.getpid()}")
    os.rename(place, aside)
    try:
        os.rename(finished, place)
    except OSError:
        os.rename(aside, place)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two names in one step (Linux: renameat2); return False if that is not possible."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError, TypeError):
        return False
    arguments = (_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE)
    return rename(*arguments) == 0
