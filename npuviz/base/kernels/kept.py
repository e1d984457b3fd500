"""Keep compiled kernels on disk with a checksum each: a damaged one is compiled again and never runs."""

import hashlib
import pickle
from typing import Any

from numba.core.caching import IndexDataCacheFile

MARK = b"npuviz-checksum:"
DIGEST_BYTES = 16
_Files: Any = IndexDataCacheFile  # its stub lacks what is private


class CheckedFiles(_Files):
    """numba's cache files of one kernel, each followed by a checksum of its content and its purpose.

    Files of npuviz 0.1 have no checksum: they count if they can be read.
    """

    def load(self, key: Any) -> Any:
        """Return the entry of a key, None if there is none or it is damaged."""
        try:
            name = self._load_index().get(key)
            return None if name is None else pickle.loads(self._read(self._data_path(name), str(key)))
        except Exception:
            # Unpickling damaged data raises exceptions of any type.
            return None

    def save(self, key: Any, data: Any) -> None:
        """Write an entry. Raises OSError."""
        overloads = self._load_index()
        names = set(overloads.values())
        number = 1
        while key not in overloads and self._data_name(number) in names:
            number += 1
        name = overloads.setdefault(key, self._data_name(number))
        self._write(self._data_path(name), self._dump(data), str(key))
        self._save_index(overloads)

    def _load_index(self) -> dict[Any, str]:
        try:
            content = self._read(self._index_path, "index")
            stamp, overloads = pickle.loads(content[len(pickle.dumps(self._version, protocol=-1)) :])
            is_ours = pickle.loads(content) == self._version and stamp == self._source_stamp
            return overloads if is_ours and isinstance(overloads, dict) else {}
        except Exception:
            return {}

    def _save_index(self, overloads: dict[Any, str]) -> None:
        content = pickle.dumps(self._version, protocol=-1) + self._dump((self._source_stamp, overloads))
        self._write(self._index_path, content, "index")

    def _read(self, path: str, purpose: str) -> bytes:
        """Read a file's content. Raises OSError, or ValueError if it is damaged or was written for another
        purpose."""
        with open(path, "rb") as file:
            content = file.read()
        end = len(content) - DIGEST_BYTES - len(MARK)
        if content[end : end + len(MARK)] != MARK:
            return content
        if content[end + len(MARK) :] != _checksum(content[:end], purpose):
            raise ValueError(f"{path}: damaged")
        return content[:end]

    def _write(self, path: str, content: bytes, purpose: str) -> None:
        with self._open_for_write(path) as file:
            file.write(content + MARK + _checksum(content, purpose))


def checked(kernel: Any) -> Any:
    """Make a kernel of numba keep checksums in its cache from now on, and return it."""
    files = CheckedFiles.__new__(CheckedFiles)
    files.__dict__.update(kernel._cache._cache_file.__dict__)  # noqa: SLF001
    kernel._cache._cache_file = files  # noqa: SLF001
    return kernel


def _checksum(content: bytes, purpose: str) -> bytes:
    digest = hashlib.blake2b(content, digest_size=DIGEST_BYTES)
    digest.update(purpose.encode())
    return digest.digest()
