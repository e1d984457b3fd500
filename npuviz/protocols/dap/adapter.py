"""The debug adapter: answers the requests of one client, one after the other.

A separate thread reads messages. A request that arrives while the machine runs stops it at a whole cycle
and is answered; unless it was `pause`, the machine then goes on.
"""

import queue
import secrets
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from npuviz.api import DebugSession
from npuviz.base.errors import NpuvizError, UsageError
from npuviz.base.names import echo
from npuviz.debug.console.commands import BY_WORD, answer_of
from npuviz.debug.element_steps import LineStep
from npuviz.protocols.dap.arguments import Arguments, number_in, object_in, text_in, texts_in
from npuviz.protocols.dap.breakpoints import Breakpoints
from npuviz.protocols.dap.capabilities import CAPABILITIES
from npuviz.protocols.dap.launch import open_launched
from npuviz.protocols.dap.memory import disassemble, parse_area, read_memory, write_memory
from npuviz.protocols.dap.motion import Motion, Step, Stop
from npuviz.protocols.dap.places import Places, Spot
from npuviz.protocols.dap.variables import Variables
from npuviz.protocols.dap.wire import Wire, WireError
from npuviz.sim.stop import StopKind, StopReason

MOST_TEXT = 1 << 16
"""Most characters of the result of an evaluation."""
MOST_WAITING = 64
"""Most requests that are read ahead; a client that sends more is not read until some are answered."""
POLL_SECONDS = 0.05
"""Interval at which a running machine checks for requests."""
PAUSES = ("pause", "disconnect", "terminate")
MOVES = ("continue", "reverseContinue", "next", "stepIn", "stepOut", "stepBack", "restart", "launch")
BEFORE_LAUNCH = ("initialize", "launch", "attach", "disconnect", "terminate", "cancel")
Body = dict[str, Any] | None
After = Callable[[], None] | None


class Debuggee:
    """The launched session with its places, breakpoints, motion and variables."""

    def __init__(self, opened: DebugSession) -> None:
        self.opened, self.session = opened, opened.session
        path = opened.path
        self.places = Places(self.session, path if path.is_dir() else path.parent)
        self.breakpoints = Breakpoints(self.session, self.places)
        self.motion = Motion(self.session, self.places, self.breakpoints)
        self.variables = Variables(self.session, self.places)


class Adapter:
    """Serves one client until it disconnects.

    token  that the request `launch` must contain, "" for none
    """

    def __init__(self, wire: Wire, token: str = "") -> None:
        self._wire, self._token = wire, token
        self._requests: queue.Queue[dict[str, Any] | None] = queue.Queue(MOST_WAITING)
        self._debuggee: Debuggee | None = None
        self._pauses = threading.Event()
        self._is_over = self._is_running = self._is_pause_asked = False
        self._thread = 0
        self._stop: Stop | None = None
        self._stops_on_entry = True
        self.is_trusted = not token

    def serve(self) -> None:
        """Answer until the client disconnects or its messages end."""
        threading.Thread(target=self._receive, name="dap reader", daemon=True).start()
        try:
            while not self._is_over and (request := self._requests.get()) is not None:
                self._answer(request)
        finally:
            if self._debuggee is not None:
                self._debuggee.opened.close()

    # ---- messages

    def _receive(self) -> None:
        """Read messages and queue them, until the stream ends."""
        while True:
            try:
                request = self._wire.read()
            except WireError as error:
                self._say(f"npuviz: {error}\n", "stderr")
                if not error.is_over:
                    continue
                request = None
            except (OSError, ValueError):
                request = None
            if request is None or request.get("command") in PAUSES:
                self._pauses.set()
            self._requests.put(request)
            if request is None:
                return

    def _answer(self, request: dict[str, Any]) -> None:
        """Execute one request, send its response, and then do the action that follows the response."""
        command, number = request.get("command"), request.get("seq")
        if request.get("type") != "request" or not isinstance(command, str) or not isinstance(number, int):
            self._say("npuviz: a message that is no request\n", "stderr")
            return
        envelope = {"type": "response", "request_seq": number, "command": command}
        try:
            arguments = request.get("arguments") or {}
            if not isinstance(arguments, dict):
                raise UsageError("arguments: expected an object")
            body, after = self._do(command, arguments)
        except NpuvizError as error:
            self._fail(envelope, str(error))
        except (OSError, ValueError, KeyError, MemoryError) as error:
            self._fail(envelope, str(NpuvizError(f"{type(error).__name__}: {error}")))
        except Exception as error:
            text = f"internal error: {type(error).__name__}: {error}; this is a bug of npuviz"
            self._fail(envelope, str(NpuvizError(text)))
        else:
            # An acknowledgement has no content; some clients look for the envelope there.
            empty = {"seq": 0, **envelope, "success": True}
            self._wire.write({**envelope, "success": True, "body": empty if body is None else body})
            if after is not None:
                after()

    def _fail(self, envelope: dict[str, Any], text: str) -> None:
        error = {"id": 1, "format": text.replace("{", "(").replace("}", ")"), "showUser": True}
        self._wire.write({**envelope, "success": False, "message": text, "body": {"error": error}})

    def _event(self, name: str, body: dict[str, Any]) -> None:
        self._wire.write({"type": "event", "event": name, "body": body})

    def _say(self, text: str, category: str = "console") -> None:
        self._event("output", {"category": category, "output": text})

    # ---- requests

    def _do(self, command: str, arguments: Arguments) -> tuple[Body, After]:
        """Execute a request. Returns the body of the response, and the action to do after the response, if
        any."""
        if command not in BEFORE_LAUNCH and self._debuggee is None:
            raise UsageError(f"{echo(command)}: nothing is launched yet")
        if command in MOVES and self._is_running:
            raise UsageError(f"{command}: the machine is running; pause first")
        special: dict[str, Callable[[Arguments], tuple[Body, After]]] = {
            "initialize": self._initialize,
            "launch": self._launch,
            "configurationDone": self._configured,
            "continue": lambda _: ({"allThreadsContinued": True}, lambda: self._go(self._run)),
            "reverseContinue": lambda _: (None, lambda: self._go(self._run_back)),
            "next": lambda found: self._step(found, LineStep.OVER),
            "stepIn": lambda found: self._step(found, LineStep.INTO),
            "stepOut": lambda found: self._step(found, LineStep.OUT),
            "stepBack": lambda found: self._step(found, LineStep.OVER, is_back=True),
            "pause": self._pause,
            "restart": lambda _: (None, self._restart),
            "evaluate": self._evaluate,
            "disconnect": self._disconnect,
            "terminate": self._disconnect,
            "cancel": lambda _: (None, None),
        }
        if command in special:
            return special[command](arguments)
        if command == "attach":
            raise UsageError("attach: npuviz runs its machine itself; use launch")
        question = self._questions().get(command)
        if question is None:
            raise UsageError(f"{echo(command)}: not supported")
        return question(arguments), None

    def _questions(self) -> dict[str, Callable[[Arguments], Body]]:
        found = self._launched()
        session, places, variables = found.session, found.places, found.variables
        return {
            "setBreakpoints": found.breakpoints.set_lines,
            "setInstructionBreakpoints": found.breakpoints.set_instructions,
            "setFunctionBreakpoints": found.breakpoints.set_functions,
            "setDataBreakpoints": found.breakpoints.set_data,
            "setExceptionBreakpoints": self._set_exceptions,
            "dataBreakpointInfo": self._data_info,
            "breakpointLocations": self._locations,
            "threads": lambda _: {
                "threads": [{"id": thread, "name": name} for thread, name in places.threads]
            },
            "stackTrace": lambda given: places.frames(
                places.subject(given) + 1,
                max(number_in(given, "startFrame", 0), 0),
                number_in(given, "levels", 0),
            ),
            "scopes": lambda given: variables.scopes(places.spot(number_in(given, "frameId"))),
            "variables": variables.variables,
            "setVariable": self._set_variable,
            "source": self._source,
            "loadedSources": lambda _: {"sources": places.all_sources()},
            "readMemory": lambda given: read_memory(session, given),
            "writeMemory": self._write_memory,
            "disassemble": lambda given: disassemble(session, places, given),
            "exceptionInfo": self._exception_info,
            "completions": self._completions,
        }

    def _launched(self) -> Debuggee:
        if self._debuggee is None:
            raise UsageError("nothing is launched yet")
        return self._debuggee

    # ---- beginning and end

    def _initialize(self, arguments: Arguments) -> tuple[Body, After]:
        if arguments.get("linesStartAt1") is False or arguments.get("columnsStartAt1") is False:
            raise UsageError("expected lines and columns that count from 1")
        return CAPABILITIES, None

    def _launch(self, arguments: Arguments) -> tuple[Body, After]:
        if self._debuggee is not None:
            raise UsageError("launch: something is launched already")
        if not secrets.compare_digest(text_in(arguments, "token", "").encode(), self._token.encode()):
            self._is_over = True
            raise UsageError("launch: the token is missing or wrong; `npuviz dap` printed it")
        self.is_trusted = True
        self._stops_on_entry = arguments.get("stopOnEntry", True) is not False
        self._debuggee = Debuggee(open_launched(arguments))
        self._thread = self._debuggee.places.threads[0][0]
        return None, lambda: self._event("initialized", {})

    def _configured(self, _arguments: Arguments) -> tuple[Body, After]:
        session = self._launched().session
        if not self._stops_on_entry:
            return None, lambda: self._go(self._run)
        return None, lambda: self._stopped(Stop(session.stop, "entry"))

    def _disconnect(self, _arguments: Arguments) -> tuple[Body, After]:
        self._is_over = True
        self._pauses.clear()
        return None, lambda: self._event("terminated", {})

    def _restart(self) -> None:
        self._stopped(Stop(self._launched().session.restart(), "entry"))

    # ---- motion

    def _run(self) -> Stop:
        return self._launched().motion.run(self._log)

    def _run_back(self) -> Stop:
        return self._launched().motion.run_back(self._log)

    def _log(self, message: str) -> None:
        self._say(f"[{self._launched().session.cycle}] {message}\n")

    def _step(self, arguments: Arguments, how: LineStep, is_back: bool = False) -> tuple[Body, After]:
        found = self._launched()
        subject = found.places.subject(arguments)
        step = Step(subject, how, text_in(arguments, "granularity", "statement"), is_back)
        self._thread = subject + 1
        return None, lambda: self._go(lambda: found.motion.step(step, self._log))

    def _go(self, verb: Callable[[], Stop]) -> None:
        """Run a verb to its end, answer requests that arrive meanwhile, and report the stop."""
        found = self._launched()
        if verb == self._run and found.session.is_finished:
            self._event("exited", {"exitCode": 0})
            self._event("terminated", {})
            return
        self._event("continued", {"threadId": self._thread, "allThreadsContinued": True})
        self._is_running, self._is_pause_asked = True, False
        try:
            stop = self._verb_with_answers(verb)
        finally:
            self._is_running = False
        if stop is not None:
            self._stopped(stop)

    def _verb_with_answers(self, verb: Callable[[], Stop]) -> Stop | None:
        """Run a verb, again after each interruption by a request other than a pause. Returns None if the
        client has disconnected."""
        found = self._launched()
        while True:
            try:
                with self._interrupting(lambda: not self._requests.empty()):
                    stop = verb()
            except NpuvizError as error:
                self._say(f"{error}\n", "stderr")
                return Stop(found.session.stop, "pause")
            if stop.reason.kind is not StopKind.INTERRUPTED:
                return stop
            while not self._requests.empty() and not self._is_over:
                request = self._requests.get()
                self._is_over = self._is_over or request is None
                if request is not None:
                    self._answer(request)
            if self._is_over:
                return None
            if self._is_pause_asked:
                return stop

    @contextmanager
    def _interrupting(self, is_wanted: Callable[[], bool]) -> Generator[None]:
        """Interrupt the session inside the block, again and again while `is_wanted` returns True."""
        session, done = self._launched().session, threading.Event()

        def watch() -> None:
            while not done.wait(POLL_SECONDS):
                if is_wanted():
                    session.interrupt()

        thread = threading.Thread(target=watch, name="dap pause", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _pause(self, _arguments: Arguments) -> tuple[Body, After]:
        self._is_pause_asked = True
        self._pauses.clear()
        return None, None

    def _stopped(self, stop: Stop) -> None:
        found = self._launched()
        found.variables.forget()
        self._stop = stop
        reason = stop.reason
        conditions = {item.id: item.condition for item in found.session.breakpoints.all}
        rows = [row for hit in reason.breakpoints if hit in conditions for row in conditions[hit].rows]
        unit = stop.hazard.unit if stop.hazard is not None else reason.unit
        at = found.places.thread_at([(low, high) for _, _, low, high, _ in rows], unit)
        self._thread = at if at is not None else self._thread
        body = {
            "reason": stop.kind,
            "description": _description(stop),
            "threadId": self._thread,
            "allThreadsStopped": True,
            "text": f"cycle {reason.cycle}",
        }
        # hitBreakpointIds is left out: the protocol has numbers there, dap-python 0.5 takes only texts.
        self._event("stopped", body)

    # ---- questions

    def _evaluate(self, arguments: Arguments) -> tuple[Body, After]:
        found = self._launched()
        expression = text_in(arguments, "expression").strip()
        frame = number_in(arguments, "frameId", -1)
        spot: Spot | None = found.places.spot(frame) if frame >= 0 else None
        word = expression.partition(" ")[0]
        if text_in(arguments, "context", "repl") in ("repl", "clipboard") and word in BY_WORD:
            before, old = found.session.cycle, found.session.stop
            with self._interrupting(self._pauses.is_set):
                text = answer_of(found.session, expression).as_text()
            text = text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}\n... ({len(text)} characters)"
            has_moved = found.session.cycle != before or found.session.stop is not old
            after = (lambda: self._stopped(Stop(found.session.stop, "goto"))) if has_moved else None
            return {"result": text, "variablesReference": 0}, after
        return found.variables.value_of(expression, spot), None

    def _set_variable(self, arguments: Arguments) -> Body:
        body = self._launched().variables.set_variable(arguments)
        self._event("invalidated", {"areas": ["all"]})
        return body

    def _write_memory(self, arguments: Arguments) -> Body:
        body = write_memory(self._launched().session, arguments)
        self._event("invalidated", {"areas": ["all"]})
        return body

    def _data_info(self, arguments: Arguments) -> Body:
        found = self._launched()
        name = text_in(arguments, "name")
        frame = number_in(arguments, "frameId", -1)
        spot = found.places.spot(frame) if frame >= 0 else self._present_spot()
        area = found.variables.area_of(name, spot)
        if area is None:
            try:
                area = parse_area(found.session, name)
            except UsageError as error:
                return {"dataId": None, "description": str(error)}
        return {
            "dataId": area.data_id,
            "description": f"{area.size_bytes} bytes of {area.memory.name} from {area.address:#x}",
            "accessTypes": ["read", "write", "readWrite"],
        }

    def _present_spot(self) -> Spot | None:
        return next(iter(self._launched().places.spots(self._thread)), None)

    def _set_exceptions(self, arguments: Arguments) -> Body:
        self._launched().motion.stops_at_hazards = "hazards" in texts_in(arguments, "filters")
        return None

    def _exception_info(self, _arguments: Arguments) -> Body:
        stop = self._stop
        if stop is None or not stop.is_exception:
            raise UsageError("the machine did not stop at a fault or hazard")
        kind = stop.hazard.kind if stop.hazard is not None else str(stop.reason.kind)
        text = _description(stop)
        level = "always" if stop.hazard is None or stop.hazard.level == "error" else "userUnhandled"
        details = {"message": text, "typeName": kind, "stackTrace": f"cycle {stop.reason.cycle}"}
        names = {"exceptionId": kind, "exceptionID": kind}  # dap-python 0.5 looks for the second
        return {**names, "description": text, "breakMode": level, "details": details}

    def _locations(self, arguments: Arguments) -> Body:
        places = self._launched().places
        file = places.file_of(object_in(arguments, "source"))
        line = number_in(arguments, "line")
        last = number_in(arguments, "endLine", line)
        lines = places.lines(file, line, last) if file is not None else []
        return {"breakpoints": [{"line": each} for each in lines]}

    def _source(self, arguments: Arguments) -> Body:
        places = self._launched().places
        source = object_in(arguments, "source")
        reference = number_in(arguments, "sourceReference", 0) or number_in(source, "sourceReference", 0)
        file = places.file_of(source)
        return {"content": places.text(reference) if file is None else places.sources[file].text}

    def _completions(self, arguments: Arguments) -> Body:
        text = text_in(arguments, "text")[: max(number_in(arguments, "column", 1) - 1, 0)]
        words = [word for word in BY_WORD if word.startswith(text)] if " " not in text else []
        return {"targets": [{"label": word, "start": 0, "length": len(text)} for word in words]}


def _description(stop: Stop) -> str:
    """Describe a stop in one sentence."""
    if stop.hazard is not None:
        return stop.hazard.text
    reason: StopReason = stop.reason
    if reason.kind is StopKind.FINISHED:
        return "the program has ended; step back or reverse"
    return reason.detail or stop.kind


def quiet_output() -> None:
    """Redirect output of the user's programs to standard error: standard output belongs to the protocol."""
    sys.stdout = sys.stderr
