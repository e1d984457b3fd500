"""Reads and writes messages of the Model Context Protocol, one line of JSON each, and refuses malformed
ones."""

import json
import os
import threading
from typing import BinaryIO

from mcp_types import jsonrpc_message_adapter

from npuviz.base.names import echo

MOST_BYTES = 4 << 20
"""Largest message; a longer line is refused."""
_PARSE_ERROR, _INVALID_REQUEST = -32700, -32600
"""Codes of JSON-RPC."""
_EXPECTED = (
    'no message of JSON-RPC: expected "jsonrpc": "2.0", "id", "method" and "params", without lone surrogates'
)


class Wire:
    """The two streams of a connection as one text file for the server; may be written from any thread."""

    def __init__(self, reader: BinaryIO, writer: BinaryIO) -> None:
        self._reader, self._writer = reader, writer
        self._lock = threading.Lock()

    def readline(self) -> str:
        """Read the next line that is a valid message, "" at the end. Others are answered with an error."""
        while data := self._reader.readline(MOST_BYTES):
            if len(data) == MOST_BYTES and not data.endswith(b"\n"):
                self._pass_over()
                self._refuse(None, _INVALID_REQUEST, f"expected a line of at most {MOST_BYTES} bytes")
            elif data.strip() and self._is_message(data):
                return data.decode("utf-8", "replace")
        return ""

    def write(self, text: str) -> None:
        """Send lines. Errors of a closed stream are ignored."""
        with self._lock:
            try:
                self._writer.write(text.encode())
                self._writer.flush()
            except (OSError, ValueError):
                pass

    def flush(self) -> None:
        """Do nothing, since `write` flushes."""

    def _pass_over(self) -> None:
        while (data := self._reader.readline(MOST_BYTES)) and not data.endswith(b"\n"):
            pass

    def _is_message(self, data: bytes) -> bool:
        """Return whether a line is a valid message, and send the client an error if it is not."""
        try:
            jsonrpc_message_adapter.validate_json(data, by_name=False)
        except ValueError:
            try:
                found = json.loads(data)
            except (ValueError, RecursionError) as error:
                self._refuse(None, _PARSE_ERROR, f"no JSON: {echo(str(error))}")
                return False
            number = found.get("id") if isinstance(found, dict) else None
            known = number if isinstance(number, int | str) and not isinstance(number, bool) else None
            self._refuse(known, _INVALID_REQUEST, _EXPECTED)
            return False
        return True

    def _refuse(self, number: int | str | None, code: int, text: str) -> None:
        self.write(
            json.dumps({"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": text}}) + "\n"
        )


def own_wire() -> Wire:
    """Take standard input and output for the protocol. For all other code input is then empty, and output
    goes to standard error."""
    reader, writer = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)
    return Wire(reader, writer)
