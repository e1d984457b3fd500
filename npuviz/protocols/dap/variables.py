"""Answers requests for scopes and variables: the current values of a frame, the machine and the program."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from npuviz.base.errors import UsageError
from npuviz.base.names import echo
from npuviz.debug import translate
from npuviz.debug.session import Session
from npuviz.program.instruction import Operand
from npuviz.protocols.dap.arguments import Arguments, number_in, text_in
from npuviz.protocols.dap.memory import Area
from npuviz.protocols.dap.places import Places, Spot
from npuviz.sim.frames import FrameVariable, HasFrames

MOST_ROWS = 1000
"""Most variables in one answer; a client can request further ones by paging."""
Rows = Callable[[], Sequence[dict[str, Any]]]


class Variables:
    """Scopes and variables of a session; their references are valid until the machine moves."""

    def __init__(self, session: Session, places: Places) -> None:
        self._session, self._places = session, places
        self._rows: list[Rows] = []
        self._probes = -1

    def forget(self) -> None:
        """Invalidate all references, since the machine moved."""
        self._rows.clear()
        self._probes = -1

    # ---- requests

    def scopes(self, spot: Spot) -> dict[str, Any]:
        """Return the body of a scopes response for a frame."""
        found: list[dict[str, Any]] = []
        if spot.frame is not None:
            found.append(
                self._scope(
                    "Locals", lambda: self._frame_rows(spot, spot.frame.variables if spot.frame else ())
                )
            )
            found.append(self._scope("Globals", lambda: self._globals(spot), expensive=True))
        found.append(self._scope("Instruction", lambda: self._instruction(spot.instruction)))
        found.append(self._scope("Units", self._units))
        found.append(self._scope("Queues", self._queues))
        found.append(self._scope("Tensors", self._tensors))
        found.append(self._scope("Memories", self._memories))
        probes = self._scope("Probes", self._probe_rows, expensive=True)
        self._probes = probes["variablesReference"]
        return {"scopes": [*found, probes]}

    def variables(self, arguments: Arguments) -> dict[str, Any]:
        """Return the body of a variables response. Raises UsageError for an invalid reference."""
        reference = number_in(arguments, "variablesReference")
        if not 1 <= reference <= len(self._rows):
            raise UsageError(f"no variables {reference} now")
        start = max(number_in(arguments, "start", 0), 0)
        count = number_in(arguments, "count", 0) or MOST_ROWS
        rows = self._rows[reference - 1]()
        return {"variables": list(rows[start : start + min(count, MOST_ROWS)])}

    def set_variable(self, arguments: Arguments) -> dict[str, Any]:
        """Set a probe, which changes the rest of the run. Returns the body of the response. Raises
        UsageError."""
        name = text_in(arguments, "name")
        probe = next((probe for probe in self._session.machine.probes if probe.id == name), None)
        if number_in(arguments, "variablesReference") != self._probes or probe is None:
            raise UsageError(f"{echo(name)}: only probes can be set; bytes by writeMemory")
        self._session.write(probe.id, translate.parse_value(text_in(arguments, "value"), probe))
        return {"value": translate.format_value(self._session.read(probe.id))}

    def value_of(self, expression: str, spot: Spot | None) -> dict[str, Any]:
        """Find a variable of the frame, a tensor or a probe by name, as the body of an evaluate response.

        Raises UsageError.
        """
        if spot is not None and spot.frame is not None:
            for variable in (*spot.frame.variables, *self._global_variables(spot)):
                if variable.name.rpartition(".")[2] == expression or variable.name == expression:
                    return _as_result(self._frame_rows(spot, [variable])[0])
        for row in (*self._tensor_rows(expression), *self._probe_named(expression)):
            return _as_result(row)
        raise UsageError(f"{echo(expression)!r}: neither a variable, a probe, a tensor nor a command")

    def area_of(self, name: str, spot: Spot | None) -> Area | None:
        """Return the bytes of a variable or tensor, None if it has no place in memory."""
        if spot is not None and spot.frame is not None:
            for variable in (*spot.frame.variables, *self._global_variables(spot)):
                if name in (variable.name, variable.name.rpartition(".")[2]):
                    return self._area_in_element(spot, variable)
        tensor = next((t for t in self._session.program.graph.tensors if t.name == name), None)
        place = self._session.program.memory_map.of_tensor(tensor.id) if tensor is not None else None
        if place is None:
            return None
        memories = {memory.id: memory for memory in self._session.description.memories}
        return Area(memories[place.memory], place.address, place.size_bytes)

    # ---- scopes

    def _scope(self, name: str, rows: Rows, expensive: bool = False) -> dict[str, Any]:
        return {"name": name, "variablesReference": self._reference(rows), "expensive": expensive}

    def _reference(self, rows: Rows) -> int:
        self._rows.append(rows)
        return len(self._rows)

    def _frame_rows(self, spot: Spot, variables: Iterable[FrameVariable]) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for variable in variables:
            area = self._area_in_element(spot, variable)
            memory = {"memoryReference": area.reference} if area is not None else {}
            rows.append(_row(variable.name, variable.value, variable.type) | memory)
        return rows

    def _globals(self, spot: Spot) -> list[dict[str, Any]]:
        return self._frame_rows(spot, self._global_variables(spot))

    def _global_variables(self, spot: Spot) -> Sequence[FrameVariable]:
        machine = self._session.machine
        return machine.globals_of(spot.thread - 1) if isinstance(machine, HasFrames) else ()

    def _area_in_element(self, spot: Spot, variable: FrameVariable) -> Area | None:
        """Return the bytes of a variable in the memory of its element, None if the description lacks that
        memory."""
        label = next((name for thread, name in self._places.threads if thread == spot.thread), "")
        memory = next(
            (m for m in self._session.description.memories if m.name.rpartition(".")[0] == label), None
        )
        if memory is None or variable.address < 0:
            return None
        return Area(memory, variable.address, max(variable.size_bytes, 1))

    def _instruction(self, index: int) -> list[dict[str, Any]]:
        found = self._session.program.listing.describe(index)
        units = {unit.id: unit.name for unit in self._session.description.units}
        nodes = self._session.program.graph.nodes
        rows = [_row("index", str(index)), _row("text", found.text)]
        rows += [_row("unit", units[found.unit])] if found.unit in units else []
        rows += [_row("operator", nodes[found.node].name)] if 0 <= found.node < len(nodes) else []
        rows += [self._operand(f"reads[{i}]", operand) for i, operand in enumerate(found.reads)]
        rows += [self._operand(f"writes[{i}]", operand) for i, operand in enumerate(found.writes)]
        return rows

    def _operand(self, name: str, operand: Operand) -> dict[str, Any]:
        memory = next(m for m in self._session.description.memories if m.id == operand.memory)
        tensors = self._session.program.graph.tensors
        of = f" of {tensors[operand.tensor].name}" if 0 <= operand.tensor < len(tensors) else ""
        area = Area(memory, operand.address, operand.size_bytes)
        text = f"{memory.name} {operand.address:#x}, {operand.size_bytes} bytes{of}"
        return _row(name, text) | {"memoryReference": area.reference}

    def _units(self) -> list[dict[str, Any]]:
        units = {unit.id: unit.name for unit in self._session.description.units}
        return [
            _row(units[state.unit], f"{state.status} {state.detail}".strip())
            for state in self._session.machine.unit_states()
        ]

    def _queues(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for queue in self._session.description.queues:
            entries = self._session.machine.queue_entries(queue.id)
            limit = f" of {queue.capacity}" if queue.capacity else ""
            held = [_row(f"[{number}]", entry.text) for number, entry in enumerate(entries)]
            reference = self._reference(lambda held=held: held) if held else 0
            rows.append(_row(queue.name, f"{len(entries)}{limit}") | {"variablesReference": reference})
        return rows

    def _tensors(self) -> list[dict[str, Any]]:
        return self._tensor_rows("")

    def _tensor_rows(self, name: str) -> list[dict[str, Any]]:
        """Return a row for each tensor, or for those with a name."""
        rows: list[dict[str, Any]] = []
        for tensor in self._session.program.graph.tensors:
            if name not in ("", tensor.name):
                continue
            shape = "x".join(map(str, tensor.shape)) or "scalar"
            row = _row(tensor.name, f"{shape} {tensor.dtype}", tensor.kind)
            row["variablesReference"] = self._reference(lambda of=tensor.id: self._elements(of))
            row["indexedVariables"] = tensor.num_elements
            area = self.area_of(tensor.name, None)
            rows.append(row | ({"memoryReference": area.reference} if area is not None else {}))
        return rows

    def _elements(self, tensor: int) -> Sequence[dict[str, Any]]:
        values = self._session.machine.tensor(tensor)
        if values is None:
            return [_row("values", "none now")]
        return _Elements(values.reshape(-1))

    def _memories(self) -> list[dict[str, Any]]:
        return [
            _row(memory.name, f"{memory.size_bytes} bytes", memory.role)
            | {"memoryReference": Area(memory, 0, 1).reference}
            for memory in self._session.description.memories
        ]

    def _probe_rows(self) -> list[dict[str, Any]]:
        probes = self._session.machine.probes
        return [
            _row(probe.id, translate.format_value(self._session.read(probe.id)), probe.title)
            for probe in probes
        ]

    def _probe_named(self, name: str) -> list[dict[str, Any]]:
        known = any(probe.id == name for probe in self._session.machine.probes)
        return [_row(name, translate.format_value(self._session.read(name)))] if known else []


class _Elements(Sequence[dict[str, Any]]):
    """Rows for the elements of an array, made on access."""

    def __init__(self, values: np.ndarray) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return [self[number] for number in range(*key.indices(len(self)))]
        return _row(f"[{key}]", translate.format_number(self._values[key]))


def _row(name: str, value: str, kind: str = "") -> dict[str, Any]:
    row: dict[str, Any] = {"name": name, "value": value, "variablesReference": 0}
    return row | ({"type": kind} if kind else {})


def _as_result(row: dict[str, Any]) -> dict[str, Any]:
    """Convert the row of a variable to the body of an evaluate response."""
    return {
        "result": row["value"],
        **{key: value for key, value in row.items() if key not in ("name", "value")},
    }
