"""Debug with one command a line, for terminals and scripts, on the same session as the window's."""

from typing import TextIO

from npuviz.base.errors import NpuvizError
from npuviz.debug.console.answer import error_json
from npuviz.debug.console.commands import answer_of, command_named
from npuviz.debug.session import Session
from npuviz.sim.stop import BROKEN, StopReason

QUIT = ("quit", "q", "exit")


class TextDebugger:
    """Reads commands and writes an answer for each.

    json  write one JSON object a line instead of text
    errors      errors of the commands that failed, a line each
    misbehaved  the first stop at which the simulated chip was stuck or at fault, None so far
    """

    def __init__(self, session: Session, out: TextIO, json: bool = False) -> None:
        self.session = session
        self._out = out
        self._json = json
        self.errors: list[str] = []
        self.misbehaved: StopReason | None = None

    def execute(self, line: str) -> bool:
        """Execute one command; return False if it was `quit`. Mistakes are written, never raised."""
        text = line.strip()
        if not text or text.startswith("#"):
            return True
        word, _, _rest = text.partition(" ")
        if word in QUIT:
            return False
        name = word
        try:
            name = command_named(word).name
            answer = answer_of(self.session, text)
        except NpuvizError as error:
            self._fail(name, str(error))
            return True
        if self.misbehaved is None and self.session.stop.kind in BROKEN:
            self.misbehaved = self.session.stop
        self._write(answer.as_json(name) if self._json else answer.as_text())
        return True

    def _fail(self, command: str, text: str) -> None:
        line = " ".join(text.split())
        self.errors.append(line)
        self._write(error_json(command, line) if self._json else f"error: {line}")

    def _write(self, text: str) -> None:
        self._out.write(text + "\n")
        self._out.flush()
