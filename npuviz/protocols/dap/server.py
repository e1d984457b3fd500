"""Serves the adapter through standard input and output, or through a TCP port of the loopback interface."""

import os
import secrets
import socket
import sys
import threading
from contextlib import suppress
from typing import BinaryIO

from npuviz.base.errors import UsageError
from npuviz.protocols.dap.adapter import Adapter, quiet_output
from npuviz.protocols.dap.wire import Wire

LOOPBACK = "127.0.0.1"
TOKEN_VARIABLE = "NPUVIZ_DAP_TOKEN"
"""Environment variable with the token; without it a random one is made. Either is printed."""
TRUST_SECONDS = 30.0
"""Time after which a connection without the token is closed."""


def serve_stdio() -> None:
    """Serve the client at standard input and output until it disconnects, then end the process."""
    writer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    quiet_output()
    Adapter(Wire(sys.stdin.buffer, writer)).serve()
    _end()


def serve_port(port: int) -> None:
    """Serve one client at a port of the loopback interface, then end the process. Raises UsageError."""
    token = os.environ.get(TOKEN_VARIABLE) or secrets.token_urlsafe(16)
    quiet_output()
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((LOOPBACK, port))
        except (OSError, OverflowError) as error:
            raise UsageError(f"--port {port}: {error}") from None
        listener.listen(1)
        print(
            f"npuviz dap: {LOOPBACK}:{listener.getsockname()[1]} token {token}", file=sys.stderr, flush=True
        )
        while not _serve_one(listener, token):
            pass
    _end()


def _serve_one(listener: socket.socket, token: str) -> bool:
    """Serve a connection. Returns whether it brought the token."""
    connection, _ = listener.accept()
    with connection:
        reader: BinaryIO = connection.makefile("rb")
        writer: BinaryIO = connection.makefile("wb")
        adapter = Adapter(Wire(reader, writer), token)

        def close_stranger() -> None:
            if not adapter.is_trusted:
                connection.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(TRUST_SECONDS, close_stranger)
        timer.daemon = True
        timer.start()
        adapter.serve()
        timer.cancel()
        with suppress(OSError):  # the adapter's thread may still be reading, which keeps the socket open
            connection.shutdown(socket.SHUT_RDWR)
        return adapter.is_trusted


def _end() -> None:
    """End the process at once: a thread may still be blocked in reading input."""
    sys.stderr.flush()
    os._exit(0)
