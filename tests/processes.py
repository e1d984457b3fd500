"""Tests in several processes that begin as copies of one: what tests import is imported and collected once.

`pytest -p tests.processes --processes 2`: after collecting, the process forks; copies take a file of tests at
a time, in the order of the files, and send what they find to the first one, which reports it.
"""

import atexit
import gc
import itertools
import os
import pickle
import selectors
import signal
import struct
from collections.abc import Callable, Iterator
from io import RawIOBase
from typing import Any, BinaryIO

import pytest

_NUMBER = struct.Struct("<I")
_PLUGIN = "processes"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--processes", type=int, default=1, help="run tests in so many processes")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run all tests, unless one process does, or nothing is to be run."""
    options = session.config.option
    if options.processes < 2 or options.collectonly or session.testsfailed:
        return None
    files = [
        list(items)
        for _, items in itertools.groupby(session.items, lambda item: item.nodeid.partition("::")[0])
    ]
    _Pool(session, files).run(options.processes)
    return True


class _Pool:
    """The first process: hands out files of tests, and hears how they ended."""

    def __init__(self, session: pytest.Session, files: list[list[pytest.Item]]) -> None:
        self._session = session
        self._files = files
        self._workers: dict[int, RawIOBase] = {}
        self._running: dict[int, str] = {}

    def run(self, count: int) -> None:
        """Start the others, and report until all have ended."""
        capture: Any = self._session.config.pluginmanager.getplugin("capturemanager")
        capture.stop_global_capturing()  # each process has files of its own for what tests print
        tickets, ours = os.pipe()
        gc.freeze()
        try:
            for _ in range(count):
                self._start(tickets, ours)
            os.close(tickets)
            self._hand_out(ours)
        finally:
            gc.unfreeze()
            for process, pipe in self._workers.items():
                pipe.close()
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)

    def _start(self, tickets: int, ours: int) -> None:
        reading, writing = os.pipe()
        process = os.fork()
        if process == 0:
            status = 1
            try:
                os.close(ours)
                os.close(reading)
                _work(self._session, self._files, tickets, os.fdopen(writing, "wb"))
                atexit._run_exitfuncs()
                status = 0
            except KeyboardInterrupt:
                pass
            finally:
                os._exit(status)
        os.close(writing)
        self._workers[process] = os.fdopen(reading, "rb", buffering=0)

    def _hand_out(self, tickets: int) -> None:
        """Write a ticket for each file while there is room for more, and read what comes."""
        left = iter(range(len(self._files)))
        os.set_blocking(tickets, False)
        with selectors.DefaultSelector() as selector:
            selector.register(tickets, selectors.EVENT_WRITE)
            for process, pipe in self._workers.items():
                selector.register(pipe, selectors.EVENT_READ, process)
            while self._workers:
                for key, _ in selector.select():
                    if key.data is None:
                        number = next(left, None)
                        if number is None:
                            selector.unregister(tickets)
                            os.close(tickets)
                        else:
                            os.write(tickets, _NUMBER.pack(number))
                    elif not self._hear(key.data):
                        selector.unregister(key.fileobj)
                        self._end(key.data)

    def _hear(self, process: int) -> bool:
        """Report what a process says; False when it says nothing more."""
        pipe, hook = self._workers[process], self._session.config.hook
        head = _read(pipe, _NUMBER.size)
        text = _read(pipe, _NUMBER.unpack(head)[0]) if head else b""
        if not text:
            return False
        kind, what = pickle.loads(text)
        if kind == "report":
            report = hook.pytest_report_from_serializable(config=self._session.config, data=what)
            hook.pytest_runtest_logreport(report=report)
        elif kind == "start":
            self._running[process] = what[0]
            hook.pytest_runtest_logstart(nodeid=what[0], location=what[1])
        else:
            self._running.pop(process, None)
            hook.pytest_runtest_logfinish(nodeid=what[0], location=what[1])
        if self._session.shouldfail:
            raise self._session.Failed(self._session.shouldfail)
        if self._session.shouldstop:
            raise self._session.Interrupted(self._session.shouldstop)
        return True

    def _end(self, process: int) -> None:
        self._workers.pop(process).close()
        _, status = os.waitpid(process, 0)
        code = os.waitstatus_to_exitcode(status)
        if code == 0:
            return
        nodeid = self._running.pop(process, "between two tests")
        how = f"by signal {-code}" if code < 0 else f"with status {code}"
        report = pytest.TestReport(
            nodeid, ("", None, nodeid), {}, "failed", f"the process ended {how}: {nodeid}", "call"
        )
        self._session.config.hook.pytest_runtest_logreport(report=report)


def _read(pipe: RawIOBase, count: int) -> bytes:
    """So many bytes; none when whoever writes them has ended."""
    found = b""
    while len(found) < count:
        part = pipe.read(count - len(found))
        if not part:
            return b""
        found += part
    return found


def _work(session: pytest.Session, files: list[list[pytest.Item]], tickets: int, pipe: BinaryIO) -> None:
    """A copy: run files of tests while there are tickets."""
    manager = session.config.pluginmanager
    manager.unregister(name="terminalreporter")
    manager.register(_Teller(session.config, pipe), _PLUGIN)
    capture: Any = manager.getplugin("capturemanager")
    capture.start_global_capturing()
    capture.suspend_global_capture()
    items = _items(files, lambda: os.read(tickets, _NUMBER.size))
    item = next(items, None)
    while item is not None:
        # What the next test needs as well, fixtures of the session among that, stays.
        following = next(items, None)
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        item = following
    capture.stop_global_capturing()


def _items(files: list[list[pytest.Item]], ticket: Callable[[], bytes]) -> Iterator[pytest.Item]:
    while taken := ticket():
        yield from files[_NUMBER.unpack(taken)[0]]


class _Teller:
    """Sends what a copy reports."""

    def __init__(self, config: pytest.Config, pipe: BinaryIO) -> None:
        self._config = config
        self._pipe = pipe

    def pytest_runtest_logstart(self, nodeid: str, location: tuple[str, int | None, str]) -> None:
        self._tell("start", (nodeid, location))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        hook = self._config.hook
        self._tell("report", hook.pytest_report_to_serializable(config=self._config, report=report))

    def pytest_runtest_logfinish(self, nodeid: str, location: tuple[str, int | None, str]) -> None:
        self._tell("finish", (nodeid, location))

    def _tell(self, kind: str, what: Any) -> None:
        text = pickle.dumps((kind, what))
        self._pipe.write(_NUMBER.pack(len(text)) + text)
        self._pipe.flush()
