"""A debug adapter at the other end of pipes or a socket, spoken to by the dap package."""

import subprocess
import sys
from collections.abc import Callable
from typing import IO, Any

from dap.base import ErrorResponse
from dap.client import Client
from pydantic import ValidationError


class Conversation:
    """Requests in turn; `ask` gives the body of the response, `wait` the next event of a name."""

    def __init__(self, reader: IO[bytes], writer: IO[bytes]) -> None:
        self.client = Client("npuviz")
        self._reader, self._writer = reader, writer
        self._bodies: dict[int, Any] = {}
        self.events: list[tuple[str, dict[str, Any]]] = []
        respond, event = self.client.handler.handle_response, self.client.handler.handle_event

        def on_response(response: Any) -> Any:
            try:
                parsed = respond(response)
            except ValidationError as error:  # pragma: no cover: a body that the protocol does not have
                raise AssertionError(f"{response.command}: {error}") from None
            self._bodies[response.request_seq] = (
                response.message if isinstance(parsed, ErrorResponse) else response.body
            )
            return parsed

        def on_event(found: Any) -> Any:
            self.events.append((found.event, found.body))
            return event(found)

        self.client.handler.handle_response = on_response
        self.client.handler.handle_event = on_event  # type: ignore[method-assign]
        self.initialized = self._answer_to(1)

    def send(self, command: str, **arguments: Any) -> int:
        """Send a request; its number."""
        number = self.client.send_request(command, arguments)
        self._flush()
        return number

    def ask(self, command: str, **arguments: Any) -> Any:
        """The body of the response, or its message where the request failed."""
        return self._answer_to(self.send(command, **arguments))

    def wait(self, name: str) -> dict[str, Any]:
        """The oldest event of this name that nobody has waited for."""
        return self._until(lambda: next((body for event, body in self._take(name) if event == name), None))

    def stop(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Send a request that moves, and wait for the stop after it."""
        self.ask(command, **arguments)
        return self.wait("stopped")

    def place(self, thread: int) -> tuple[str, int]:
        """Source name and line of a thread's innermost frame, ("", 0) without one."""
        frames = self.ask("stackTrace", threadId=thread)["stackFrames"]
        return (frames[0]["source"]["name"], frames[0]["line"]) if frames else ("", 0)

    def _take(self, name: str) -> list[tuple[str, dict[str, Any]]]:
        for number, (event, body) in enumerate(self.events):
            if event == name:
                del self.events[number]
                return [(event, body)]
        return []

    def _answer_to(self, number: int) -> Any:
        self._flush()
        self._until(lambda: True if number in self._bodies else None)
        return self._bodies.pop(number)

    def _flush(self) -> None:
        data = self.client.send()
        if data:
            self._writer.write(data)
            self._writer.flush()

    def _until(self, found: Callable[[], Any]) -> Any:
        while (value := found()) is None:
            data = self._reader.read1(1 << 16)  # type: ignore[attr-defined]
            assert data, "the adapter has gone"
            for _ in self.client.receive(data):
                pass
        return value


def start(*options: str) -> "subprocess.Popen[bytes]":
    """An adapter process."""
    return subprocess.Popen(
        [sys.executable, "-m", "npuviz.cli.main", "dap", *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def launched(process: "subprocess.Popen[bytes]", **arguments: Any) -> Conversation:
    """A client that has launched a program through pipes."""
    assert process.stdin is not None
    assert process.stdout is not None
    found = Conversation(process.stdout, process.stdin)
    answer = found.ask("launch", **arguments)
    assert isinstance(answer, dict), answer
    found.wait("initialized")
    return found
