"""Limits the size of answers: a long one is cut, and gets a handle to request the rest with."""

from collections import OrderedDict

from npuviz.base.errors import UsageError
from npuviz.base.names import echo

MOST_KEPT = 32
MOST_KEPT_BYTES = 32 << 20
"""Largest number and total size of cut answers that are kept; the oldest are dropped first."""
LEAST_BYTES = 512


class Answers:
    """Cuts texts to `limit` bytes of UTF-8 and keeps the whole of those that it cut."""

    def __init__(self, limit: int) -> None:
        if limit < LEAST_BYTES:
            raise UsageError(f"--answer-bytes {limit}: expected {LEAST_BYTES} or more")
        self.limit = limit
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._count = 0

    def bounded(self, text: str) -> str:
        """Return the text if it is short enough, else its beginning with a remark how to get the rest."""
        data = text.encode("utf-8", "replace")
        if len(data) <= self.limit:
            return text
        self._count += 1
        handle = f"h{self._count}"
        self._kept[handle] = data[:MOST_KEPT_BYTES]
        while len(self._kept) > MOST_KEPT or sum(map(len, self._kept.values())) > MOST_KEPT_BYTES:
            self._kept.popitem(last=False)
        return self._part(handle, data, 0)

    def more(self, handle: str, offset: int) -> str:
        """Return the part of an answer from byte `offset` on. Raises UsageError for an unknown or dropped
        handle."""
        if handle not in self._kept:
            known = ", ".join(self._kept) or "none"
            raise UsageError(f"no answer {echo(handle)!r} is kept; there are: {known}")
        data = self._kept[handle]
        if not 0 <= offset < len(data):
            raise UsageError(f"offset {offset}: expected 0 to {len(data) - 1}")
        return self._part(handle, data, offset)

    def _part(self, handle: str, data: bytes, offset: int) -> str:
        """Return as much as fits from `offset` on, if possible up to the end of a line, with a remark about
        the rest."""
        remark = "\n[{} of {} bytes; the rest: more(handle={!r}, offset={})]"
        room = self.limit - len(remark.format(len(data), len(data), handle, len(data)))
        if len(data) - offset <= self.limit:
            return data[offset:].decode("utf-8", "replace")
        end = offset + room
        line = data.rfind(b"\n", offset, end)
        end = line + 1 if line > offset + room // 2 else end
        while end > offset + 1 and data[end] & 0xC0 == 0x80:  # not within a character
            end -= 1
        text = data[offset:end].decode("utf-8", "replace").rstrip("\n")
        return text + remark.format(end, len(data), handle, end)
