"""Find the loops of a program's text and their turns, by instruction, for listings that know their calls."""

from collections.abc import Sequence, Sized
from dataclasses import dataclass
from typing import Protocol, cast, runtime_checkable

import numpy as np

from npuviz.program.source import CallSite, HasCalls, LoopTurn, Place


@dataclass(frozen=True, slots=True)
class TextLoop:
    """A loop, reached in one way: the same loop called from two places is two.

    outer  number of the loop around it, through calls, -1 for none
    depth  how many loops are around it
    """

    variable: str
    place: Place
    outer: int
    depth: int


@dataclass(frozen=True, slots=True)
class Turns:
    """All loops and turns of a program; outer ones have lower numbers than those inside of them.

    loop, outer           (turns,) int32: the loop of each turn, and the turn around it (-1: none)
    turn, count, value    (turns,) int64: which one from 1, of how many, and the variable's value
    innermost             (instructions,) int32: innermost turn around each instruction, -1: none
    """

    loops: tuple[TextLoop, ...]
    loop: np.ndarray
    outer: np.ndarray
    turn: np.ndarray
    count: np.ndarray
    value: np.ndarray
    innermost: np.ndarray

    def __len__(self) -> int:
        return len(self.loop)

    def names(self) -> tuple[str, ...]:
        """Return which turn each is: "3 of 16", with the variable's value where it does not follow."""
        columns = zip(
            self.loop.tolist(), self.turn.tolist(), self.count.tolist(), self.value.tolist(), strict=True
        )
        return tuple(
            f"{turn} of {count}"
            if value == turn - 1
            else f"{turn} of {count}, {self.loops[loop].variable} = {value}"
            for loop, turn, count, value in columns
        )

    def instructions_of(self, number: int) -> np.ndarray:
        """Return the instructions of a turn, rising, those of loops inside of it too."""
        inside = np.zeros(len(self) + 1, dtype=np.bool_)  # the last place is that of "no turn", which is -1
        inside[number] = True
        for other in range(number + 1, len(self)):
            inside[other] = inside[self.outer[other]]
        return np.flatnonzero(inside[self.innermost])


@runtime_checkable
class HasTurns(Protocol):
    """A listing that has its loops and turns already."""

    def turns(self) -> Turns | None:
        """Return the loops and turns, None if there are none."""
        ...


class _Found:
    """Numbers loops and turns in the order in which they are met."""

    def __init__(self) -> None:
        self.loops: list[TextLoop] = []
        self.turns: list[tuple[int, int, int, int, int]] = []
        self._loop_of: dict[tuple[object, ...], int] = {}
        self._turn_of: dict[tuple[object, ...], int] = {}

    def innermost(self, calls: Sequence[CallSite]) -> int:
        """Return the innermost turn around calls, -1 outside of loops."""
        turn, way = -1, ()
        # Plain numbers as keys: there may be a call for each instruction, and hashing places takes most time.
        for call in reversed(calls):
            for loop in call.loops:
                place = loop.place
                key = turn, way, place.file, place.line, loop.variable, loop.turn
                known = self._turn_of.get(key)
                if known is None:
                    known = self._turn_of[key] = self._add(turn, way, loop)
                turn, way = known, ()
            if call is not calls[0]:
                way = *way, call.place.file, call.place.line
        return turn

    def _add(self, outer: int, way: tuple[int, ...], turn: LoopTurn) -> int:
        """Add a turn, and its loop if it is the first one of it; return the number of the turn."""
        around = self.turns[outer][0] if outer >= 0 else -1
        key = around, way, turn.place, turn.variable
        loop = self._loop_of.get(key)
        if loop is None:
            loop = self._loop_of[key] = len(self.loops)
            depth = self.loops[around].depth + 1 if around >= 0 else 0
            self.loops.append(TextLoop(turn.variable, turn.place, around, depth))
        self.turns.append((loop, outer, turn.turn, turn.count, turn.value))
        return len(self.turns) - 1


def turns_of(listing: object) -> Turns | None:
    """Return the loops and turns of a listing; None if it knows none."""
    if isinstance(listing, HasTurns):
        return listing.turns()
    if not isinstance(listing, HasCalls):
        return None
    found, known = _Found(), dict[int, tuple[Sequence[CallSite], int]]()
    innermost = np.empty(len(cast(Sized, listing)), dtype=np.int32)
    for index in range(len(innermost)):
        calls = listing.calls_of(index)
        kept = known.get(id(calls))
        if kept is None:
            # Kept with its turn, because an object that is gone leaves its id to another one.
            kept = known[id(calls)] = calls, found.innermost(calls)
        innermost[index] = kept[1]
    if not found.turns:
        return None
    columns = np.array(found.turns, dtype=np.int64).T
    loop, outer = columns[0].astype(np.int32), columns[1].astype(np.int32)
    return Turns(tuple(found.loops), loop, outer, columns[2], columns[3], columns[4], innermost)
