"""List the instructions of a wafer's programs, with the CSL texts they come from."""

import os
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from npuviz.program.instruction import Instruction
from npuviz.program.source import Entry, Place, SourceFile
from npuviz.targets.wavelet.kernels import isa
from npuviz.targets.wavelet.machine.payload import code_tables
from npuviz.targets.wavelet.view.disassembly import instruction_text
from npuviz.targets.wavelet.wafer import Function, PeProgram, Wafer

LIBRARY = "/targets/wavelet/csl/library/"
"""Part of the path of every CSL file that comes with npuviz."""


def is_library(path: str) -> bool:
    """Return whether a program text comes with npuviz."""
    return LIBRARY in path.replace("\\", "/")


def short_names(paths: Sequence[str]) -> list[str]:
    """Return unique short names: of library files as programs import them, of others from their common folder
    on."""
    own = [path for path in paths if not is_library(path)]
    # Absolute and relative paths, or an empty one, have no folder in common.
    is_alike = all(own) and len({os.path.isabs(path) for path in own}) == 1
    folder = os.path.commonpath([os.path.dirname(path) for path in own]) if is_alike else ""
    names = {os.path.relpath(path, folder or ".") if os.path.isabs(path) else path for path in own}
    found: list[str] = []
    for path in paths:
        if is_library(path):
            name = path.replace("\\", "/").rpartition(LIBRARY)[2]
            found.append(f"<{name}>" if name in names else name)
        else:
            found.append(os.path.relpath(path, folder) if folder else path)
    return found


class WaveletListing:
    """The instructions of all programs, one program after the other; programs with one code table share them.

    The graph node of an instruction is its function.
    """

    def __init__(self, wafer: Wafer) -> None:
        self._wafer = wafer
        tables, of_program = code_tables(wafer)
        self._firsts: list[int] = []
        self._owners: list[PeProgram] = []
        total = 0
        for number, code in enumerate(tables):
            self._firsts.append(total)
            self._owners.append(wafer.programs[of_program.index(number)])
            total += len(code)
        self._count = total
        self.first_of_program = tuple(self._firsts[number] for number in of_program)
        self._entries: list[int] = []
        self.functions: list[tuple[int, Function]] = []
        for first, owner in zip(self._firsts, self._owners, strict=True):
            for function in sorted(owner.functions, key=lambda f: f.entry):
                self._entries.append(first + function.entry)
                self.functions.append((first, function))
        self._starts = np.array(self._entries, np.int64)

    def __len__(self) -> int:
        return self._count

    @cached_property
    def code(self) -> np.ndarray:
        """(n, isa.CODE_WORDS) int64: all instructions."""
        parts = [np.asarray(owner.code, np.int64).reshape(-1, isa.CODE_WORDS) for owner in self._owners]
        return np.concatenate(parts) if parts else np.zeros((0, isa.CODE_WORDS), np.int64)

    def owner_of(self, index: int) -> tuple[int, PeProgram]:
        """Return the first instruction of the code table of an instruction, and a program with that table.

        Raises IndexError outside.
        """
        if not 0 <= index < self._count:
            raise IndexError(f"instruction {index}: the listing has {self._count}")
        table = bisect_right(self._firsts, index) - 1
        return self._firsts[table], self._owners[table]

    def describe(self, index: int) -> Instruction:
        """Decode one instruction. Raises IndexError outside 0..len-1."""
        first, owner = self.owner_of(index)
        text = instruction_text(owner.code[index - first], owner.functions, owner.operations)
        return Instruction(index, -1, text.split(" ")[0], text, self.node_of(index))

    def node_of(self, index: int) -> int:
        """Return the function of an instruction, -1 if none."""
        return bisect_right(self._entries, index) - 1 if 0 <= index < self._count else -1

    def nodes_of(self, indices: np.ndarray) -> np.ndarray:
        """Return the functions of instructions, -1 outside the listing."""
        found = np.searchsorted(self._starts, indices, side="right") - 1
        found[(indices < 0) | (indices >= self._count)] = -1
        return found.astype(np.int32)

    def units_of(self, indices: np.ndarray) -> np.ndarray:
        """Return -1 for every instruction: each runs on all PEs with the program."""
        return np.full(indices.shape, -1, np.int32)

    def destinations_of(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return no destinations: addresses are known only while a PE runs."""
        zeros = np.zeros(indices.shape, np.int64)
        return zeros, zeros.copy(), np.full(indices.shape, -1, np.int32)

    def ranges_of_node(self, node: int) -> list[tuple[int, int]]:
        """Return []: a function runs on many PEs, many times, so that no range starts and ends once."""
        return []

    def ranges_of_unit(self, unit: int) -> list[tuple[int, int]]:
        """Return []: no unit owns instructions."""
        return []

    # --- source texts ----------------------------------------------------------------------------------

    @cached_property
    def sources(self) -> Sequence[SourceFile]:
        """The texts of the wafer; the user's files are named from their common folder on."""
        names = short_names(self._wafer.files)
        return tuple(
            SourceFile(name, text, path, "csl", is_library(path))
            for name, path, text in zip(names, self._wafer.files, self._wafer.texts, strict=True)
        )

    def place_of(self, index: int) -> Place | None:
        """Return the place of an instruction in its text. Raises IndexError outside the listing."""
        first, owner = self.owner_of(index)
        line = int(owner.code[index - first, isa.C_LINE])
        if not 0 <= line < len(owner.places):
            return None
        place = owner.places[line]
        return Place(place.file, place.line, place.column)

    def where(self, index: int) -> str:
        """Return "pe.csl:42 in compute" for an instruction, as far as known."""
        node = self.node_of(index)
        name = self.functions[node][1].name if node >= 0 else ""
        place = self.place_of(index) if 0 <= index < self._count else None
        text = f"{self.sources[place.file].name}:{place.line}" if place is not None else ""
        return " ".join(part for part in (text, f"in {name}" if name else "") if part)

    @cached_property
    def _lines(self) -> dict[int, dict[int, list[tuple[int, int]]]]:
        """File -> line -> instruction ranges."""
        found: dict[int, dict[int, list[tuple[int, int]]]] = {}
        for first, owner in zip(self._firsts, self._owners, strict=True):
            for row, number in enumerate(owner.code[:, isa.C_LINE].tolist()):
                if not 0 <= number < len(owner.places):
                    continue
                place = owner.places[number]
                ranges = found.setdefault(place.file, {}).setdefault(place.line, [])
                index = first + row
                if ranges and ranges[-1][1] == index:
                    ranges[-1] = (ranges[-1][0], index + 1)
                else:
                    ranges.append((index, index + 1))
        return found

    def ranges_of_line(self, file: int, line: int) -> list[tuple[int, int]]:
        """Return the half-open instruction ranges of a line, rising."""
        return list(self._lines.get(file, {}).get(line, []))

    def lines_with_code(self, file: int) -> Sequence[int]:
        """Return the lines of a file that instructions come from, rising."""
        return sorted(self._lines.get(file, {}))

    @cached_property
    def entries(self) -> Sequence[Entry]:
        """Tasks and functions, by name; a text that was compiled several times is one entry."""
        tasks = {(id(p.code), t.function) for p in self._wafer.programs for t in p.tasks}
        found: dict[tuple[str, int, int], tuple[str, list[int], Place]] = {}
        for first, owner in zip(self._firsts, self._owners, strict=True):
            for number, function in enumerate(owner.functions):
                kind = "task" if (id(owner.code), number) in tasks else "function"
                place = Place(function.place.file, function.place.line, function.place.column)
                key = (function.name, place.file, place.line)
                found.setdefault(key, (kind, [], place))[1].append(first + function.entry)
        return tuple(
            Entry(name, kind, tuple(sorted(rows)), place)
            for (name, _, _), (kind, rows, place) in sorted(found.items())
        )
