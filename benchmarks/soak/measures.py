"""Measures memory, threads and open files of a process."""

import gc
import os
import threading
from dataclasses import dataclass
from pathlib import Path

SLACK_BYTES = 64 << 20
"""Growth that does not count, since allocators keep a little memory."""


@dataclass(frozen=True)
class Held:
    """Resident bytes, threads of Python, open files."""

    memory_bytes: int
    threads: int
    files: int

    def most(self, other: "Held") -> "Held":
        """Return the larger of each figure."""
        return Held(
            max(self.memory_bytes, other.memory_bytes),
            max(self.threads, other.threads),
            max(self.files, other.files),
        )

    def growth(self, later: "Held") -> str:
        """Describe the figures that grew until `later`, "" if none did."""
        found: list[str] = []
        if later.memory_bytes > self.memory_bytes + max(SLACK_BYTES, self.memory_bytes // 10):
            found.append(f"memory grew from {self.memory_bytes >> 20} to {later.memory_bytes >> 20} MiB")
        if later.threads > self.threads:
            found.append(f"threads grew from {self.threads} to {later.threads}")
        if later.files > self.files + 2:
            found.append(f"open files grew from {self.files} to {later.files}")
        return ", ".join(found)

    def until(self, later: "Held") -> str:
        """Describe the figures before and after, as text."""
        return (
            f"{self.memory_bytes >> 20} to {later.memory_bytes >> 20} MiB, "
            f"{self.threads} to {later.threads} threads, {self.files} to {later.files} open files"
        )


def held() -> Held:
    """Measure this process now, after garbage collection."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    files = len(os.listdir("/proc/self/fd"))
    return Held(pages * os.sysconf("SC_PAGE_SIZE"), threading.active_count(), files)
