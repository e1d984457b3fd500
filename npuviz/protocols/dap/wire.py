"""Reads and writes messages of the Debug Adapter Protocol: a header with the length, then JSON."""

import json
import threading
from typing import Any, BinaryIO

MOST_HEADER_BYTES = 4096
MOST_BYTES = 4 << 20
"""Largest message; a longer one ends the connection."""


class WireError(Exception):
    """A malformed message; `is_over` if the beginning of the next one cannot be found."""

    def __init__(self, text: str, is_over: bool) -> None:
        super().__init__(text)
        self.is_over = is_over


class Wire:
    """Reads messages from one stream and writes them to another, from any thread."""

    def __init__(self, reader: BinaryIO, writer: BinaryIO) -> None:
        self._reader, self._writer = reader, writer
        self._lock = threading.Lock()
        self._sequence = 0

    def read(self) -> dict[str, Any] | None:
        """Read the next message, None at the end of the stream. Raises WireError."""
        length = self._length()
        if length is None:
            return None
        data = self._reader.read(length)
        if len(data) < length:
            return None
        try:
            message = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise WireError(f"a message that is no JSON: {str(error)[:100]}", is_over=False) from None
        if not isinstance(message, dict):
            raise WireError("a message that is no JSON object", is_over=False)
        return message

    def write(self, message: dict[str, Any]) -> None:
        """Send a message with the next sequence number. Errors of a closed stream are ignored."""
        with self._lock:
            self._sequence += 1
            data = json.dumps({"seq": self._sequence, **message}).encode()
            try:
                self._writer.write(b"Content-Length: %d\r\n\r\n" % len(data) + data)
                self._writer.flush()
            except (OSError, ValueError):
                pass

    def _length(self) -> int | None:
        """Read a header and return the length of its message, None at the end of the stream. Raises
        WireError."""
        length, size = -1, 0
        while True:
            line = self._reader.readline(MOST_HEADER_BYTES)
            if not line:
                return None
            size += len(line)
            name, _, value = line.decode("ascii", "replace").partition(":")
            if name.strip().lower() == "content-length":
                digits = value.strip()
                length = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 12 else -1
            if line in (b"\r\n", b"\n") and size > len(line):
                break
            if size > MOST_HEADER_BYTES:
                raise WireError("a header that does not end", is_over=True)
        if not 0 <= length <= MOST_BYTES:
            raise WireError(f"expected a Content-Length up to {MOST_BYTES}", is_over=True)
        return length
