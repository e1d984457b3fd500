"""Instances of a kernel that wait for each other: each has a thread, and one of them runs at a time."""

import ctypes
import threading
from collections.abc import Callable, Sequence
from contextvars import ContextVar, copy_context
from typing import Any

from npuviz.targets.neuroncore.nki.record.errors import KernelError
from npuviz.targets.neuroncore.nki.record.recording import Recording

_CURRENT: ContextVar["Instances | None"] = ContextVar("instances", default=None)


class _Abandoned(BaseException):
    """Ends the thread of an instance that nobody waits for."""


class NeedsInstances(BaseException):
    """Raised by a call that waits for other instances, where instances are recorded one after the other."""


class Instances:
    """Runs the instances of a grid in order; one that waits for others lets the next one run."""

    def __init__(self, recording: Recording, programs: Sequence[tuple[int, ...]]) -> None:
        self._recording = recording
        self._programs = tuple(programs)
        self._turn = threading.Condition()
        self._running = -1
        self._waiting: dict[int, tuple[Any, int]] = {}
        self._posted: dict[Any, dict[int, Any]] = {}
        self._ended: set[int] = set()
        self._results: dict[int, Any] = {}
        self._error: BaseException | None = None
        self._is_over = False

    def run(self, work: Callable[[], Any]) -> Any:
        """What the last instance returns. Raises what an instance raises, KernelError where all wait."""
        before = _CURRENT.set(self)
        threads = [
            threading.Thread(target=copy_context().run, args=(self._instance, number, work), daemon=True)
            for number in range(len(self._programs))
        ]
        try:
            for thread in threads:
                thread.start()
            while self._error is None and len(self._ended) < len(threads):
                self._let_run(self._next())
        finally:
            _CURRENT.reset(before)
            with self._turn:
                self._is_over = True
                self._turn.notify_all()
            for thread in threads:
                if thread.is_alive() and thread.ident is not None:
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(
                        ctypes.c_ulong(thread.ident), ctypes.py_object(_Abandoned)
                    )
        if self._error is not None:
            raise self._error
        return self._results[len(threads) - 1]

    def _next(self) -> int:
        for number in range(len(self._programs)):
            if number not in self._ended and number not in self._waiting:
                return number
        waits = "; ".join(f"{self._programs[k][-1]}: {what}" for k, (what, _) in self._waiting.items())
        raise KernelError(f"the instances of the kernel wait for each other without an end ({waits})")

    def _let_run(self, number: int) -> None:
        with self._turn:
            self._recording.program = self._programs[number]
            self._running = number
            self._turn.notify_all()
            while self._running >= 0:
                self._turn.wait(0.05)

    def _instance(self, number: int, work: Callable[[], Any]) -> None:
        try:
            self._wait_for_turn(number)
            self._results[number] = work()
        except _Abandoned:
            return
        except BaseException as error:
            self._error = error
        with self._turn:
            self._ended.add(number)
            self._running = -1
            self._turn.notify_all()

    def _wait_for_turn(self, number: int) -> None:
        with self._turn:
            while self._running != number:
                if self._is_over:
                    raise _Abandoned
                self._turn.wait()

    def meet(self, what: str, members: Sequence[int], value: Any, then: Callable[[Any], None]) -> None:
        """Wait until all members came here; the last one calls `then` with their values by number."""
        own = self._programs.index(self._recording.program)
        round_number = 0
        key = (what, tuple(sorted(members)), round_number)
        while own in self._posted.get(key, {}):
            round_number += 1
            key = (*key[:2], round_number)
        posted = self._posted.setdefault(key, {})
        posted[own] = value
        if set(posted) >= set(members):
            then(posted)
            for number, (_, wanted) in list(self._waiting.items()):
                if wanted == id(posted):
                    del self._waiting[number]
            return
        self._waiting[own] = (what, id(posted))
        with self._turn:
            self._running = -1
            self._turn.notify_all()
        self._wait_for_turn(own)


def are_waiting() -> bool:
    """Whether instances of the kernel that runs can wait for each other."""
    return _CURRENT.get() is not None


def meeting(what: str, members: Sequence[int], value: Any, then: Callable[[Any], None]) -> bool:
    """`Instances.meet` of the kernel that runs; False where it has no other instance."""
    running = _CURRENT.get()
    if running is None or len(members) < 2:
        return False
    running.meet(what, members, value, then)
    return True
