"""The watch over a worker: ends one that hangs, starts another, and keeps the input that was under way."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import psutil

from tests.fuzz.board import CRASHES, HANGS, INPUTS, SECONDS, Board
from tests.fuzz.family import Outcome, keep, load
from tests.fuzz.worker import Orders

LOOK_SECONDS = 0.1
PATIENCE = 12
"""An attempt that sleeps, or a machine that is busy, may take so many times the limit."""
ROOT = Path(__file__).parents[2]


class Keeper:
    """Starts a worker with its orders, and again after each hang and crash.

    seconds  of processor time that an attempt may take
    """

    def __init__(self, orders: Orders, seconds: float) -> None:
        self.orders = orders
        self.seconds = seconds
        self.scratch = Path(orders.scratch)
        self.scratch.mkdir(parents=True)
        self.board = Board.at(self.scratch / "board", len(orders.families))
        self.board.end()
        self.is_done = False
        self._attempt = (-1, -1)
        self._since = 0.0
        self._process = self._start()

    def look(self) -> None:
        """See how the worker does; call it every LOOK_SECONDS."""
        if self.is_done:
            return
        code = self._process.poll()
        if code is None:
            if self._is_hanging():
                self._end_hang()
                self._restart()
        elif code != 0:
            self._fault(CRASHES, Outcome("crash", f"{_cause(code)}-{self._place()}"))
            self._restart()
        elif self.orders.replay is not None or self.board.is_stopped:
            self.is_done = True
        else:
            self._restart()

    def notes(self) -> list[dict[str, Any]]:
        """What the worker has written down."""
        path = self.scratch / "notes"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def kill(self) -> None:
        """End the worker at once."""
        self._process.kill()
        self._process.wait()
        self.is_done = True

    def _start(self) -> "subprocess.Popen[bytes]":
        path = self.scratch / "orders"
        path.write_text(json.dumps(asdict(self.orders)))
        home = self.scratch / "home"
        environment = {
            "NPUVIZ_KERNELS": "wait",
            "QT_QPA_PLATFORM": "offscreen",
            **os.environ,
            **{name: str(home) for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")},
            **dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"),
            "PYTHONPATH": str(ROOT),
        }
        log = (self.scratch / "output").open("ab")
        with log:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.fuzz.worker", str(path)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                cwd=ROOT,
            )

    def _restart(self) -> None:
        self.board.end()
        if self.orders.replay is None:
            rounds = [note["round"] for note in self.notes() if "round" in note]
            # Another round than the one that was broken off, so that it does not end in the same way.
            begin = max([*rounds, self.orders.round]) + 1
            self.orders = replace(self.orders, round=begin)
        else:
            self.orders = replace(self.orders, first=sum("file" in note for note in self.notes()))
        self._process = self._start()

    def _is_hanging(self) -> bool:
        began, attempt = self.board.began, self.board.attempt
        if began < 0 or attempt != self._attempt:
            self._attempt, self._since = attempt, time.monotonic()
            return False
        try:
            times = psutil.Process(self._process.pid).cpu_times()
        except psutil.NoSuchProcess:
            return False
        used = times.user + times.system - began
        return used > self.seconds or time.monotonic() - self._since > self.seconds * PATIENCE

    def _end_hang(self) -> None:
        (self.scratch / "stacks").write_text("")
        self._process.send_signal(signal.SIGUSR1)
        time.sleep(0.5)
        self.kill()
        self.is_done = False
        if self.board.attempt != self._attempt or self.board.began < 0:
            return  # it ended at the last moment
        self._fault(HANGS, Outcome("hang", self._place()))

    def _fault(self, column: int, outcome: Outcome) -> None:
        index, number = self.board.attempt
        if self.board.began < 0:
            raise RuntimeError(f"the worker ended outside of an attempt: {self._output()}")
        counts = self.board.of(index)
        counts[INPUTS] += 1
        counts[column] += 1
        counts[SECONDS] = max(counts[SECONDS], self.seconds if outcome.kind == "hang" else 0)
        name = self.orders.families[index]
        if self.orders.replay is not None:
            self._note(
                {"file": self.orders.replay[number][1], "kind": outcome.kind, "text": outcome.signature}
            )
            return
        family = load(name, self.orders.package)
        data = (self.scratch / f"input{family.suffix}").read_bytes()
        known = self.scratch.parent / "known" / f"{name} {outcome.kind} {outcome.signature}"
        known.parent.mkdir(exist_ok=True)
        if not known.exists():
            known.touch()
            path = keep(Path(self.orders.corpus), family, outcome, data)
            self._note({"found": name, "kind": outcome.kind, "path": str(path), "text": outcome.signature})

    def _note(self, line: dict[str, Any]) -> None:
        with (self.scratch / "notes").open("a") as notes:
            notes.write(json.dumps(line) + "\n")

    def _place(self) -> str:
        """The innermost function of npuviz on the stack that was dumped last."""
        path = self.scratch / "stacks"
        text = path.read_text(errors="replace") if path.exists() else ""
        for line in text.rpartition("(most recent call first)")[2].splitlines():
            if "/npuviz/" in line and "/site-packages/" not in line and " in " in line:
                return f"{Path(line.split(chr(34))[1]).stem}.{line.rpartition(' in ')[2]}"
        return "unknown"

    def _output(self) -> str:
        return (self.scratch / "output").read_text(errors="replace")[-2000:]


def _cause(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit{code}"


def scratch_folder() -> str | None:
    """A folder in memory, where there is one: a file of a disk costs more than most attempts."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def watch(keepers: list[Keeper]) -> None:
    """Look after workers until they are done."""
    while not all(keeper.is_done for keeper in keepers):
        time.sleep(LOOK_SECONDS)
        for keeper in keepers:
            keeper.look()
