"""Find which bytes the tasks and host calls of a program touch: ranges, and atom by atom."""

from functools import cached_property

import numpy as np

from npuviz.targets.rk3588.spec import RknnSpec
from npuviz.targets.rk3588.tables import Tables
from npuviz.targets.rk3588.task.accesses import access_rows, each_once, read_atoms, written_atoms
from npuviz.targets.rk3588.task.cost import cost_of
from npuviz.targets.rk3588.task.work import ATOM_BYTES


class ProgramAccesses:
    """The accesses of one program. Entries are its tasks, then its host calls."""

    def __init__(self, spec: RknnSpec, tables: Tables) -> None:
        self._spec, self._tables = spec, tables
        self._touched: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    @cached_property
    def rows(self) -> list[list[tuple[int, int, int]]]:
        """(is write, low, high) of each task, then of each host call; there may be gaps (padding).

        A host call names whole buffers, whose ends may be padding.
        """
        tasks = [access_rows(task, cost_of(task, self._spec)) for task in self._tables.tasks]
        buffers = self._tables.buffers
        for call in self._tables.hosts:
            rows: list[tuple[int, int, int]] = []
            for is_write, numbers in ((0, call.reads), (1, call.writes)):
                rows += [
                    (is_write, buffers[n].address, buffers[n].address + buffers[n].size_bytes)
                    for n in numbers
                ]
            tasks.append(rows)
        return tasks

    def shares(self, first: int, second: int) -> bool:
        """Return whether an entry writes an atom that another one reads."""
        written, read = self.touched(first)[1], self.touched(second)[0]
        few, many = sorted((written, read), key=len)
        return bool(len(many)) and bool((many[_places(many, few)] == few).any())

    def touches(self, entry: int, memory: int, address: int, *, is_write: bool) -> bool:
        """Return whether an entry reads, or writes, the atom of an address of DDR, the only memory."""
        del memory
        atoms = self.touched(entry)[is_write]
        atom = np.array([address // ATOM_BYTES * ATOM_BYTES])
        return bool(len(atoms)) and bool((atoms[_places(atoms, atom)] == atom).any())

    def touched(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the rising addresses of the atoms that an entry reads, and of those that it writes.

        For a host call these are whole buffers.
        """
        if index not in self._touched:
            self._touched[index] = self._look(index)
        return self._touched[index]

    def _look(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        if index < len(self._tables.tasks):
            task = self._tables.tasks[index]
            return read_atoms(task, cost_of(task, self._spec)), written_atoms(task)
        found: tuple[list[np.ndarray], list[np.ndarray]] = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for is_write, low, high in self.rows[index]:
            found[is_write].append(np.arange(low // ATOM_BYTES, -(-high // ATOM_BYTES)) * ATOM_BYTES)
        return each_once(found[0]), each_once(found[1])


def _places(atoms: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return the index of each wanted address in rising ones, or that of the next one; the last beyond the
    end."""
    return np.minimum(np.searchsorted(atoms, wanted), len(atoms) - 1)
