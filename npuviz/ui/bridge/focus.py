"""Which unit or element a verb means when it needs one."""

from npuviz.sim.fabric import HasElements, HasFabric
from npuviz.sim.frames import HasFrames
from npuviz.sim.machine import Machine
from npuviz.ui.bridge.session_model import SessionModel
from npuviz.workbench.selection import Selection

MAX_LOOKED_AT = 256
"""So many elements are asked for one that runs something, when none is selected."""


def focused_unit(model: SessionModel, selection: Selection) -> int | None:
    """The unit of the selection, else the first one that holds an instruction; None if there is none.

    Only while nothing runs.
    """
    session, description, program = model.session, model.description, model.program
    if session is None or description is None or program is None or model.is_running:
        return None
    holding = session.machine.next_instructions()
    candidates = [selection.unit]
    if selection.instruction is not None and selection.instruction < len(program.listing):
        candidates.append(program.listing.describe(selection.instruction).unit)
    if selection.track is not None:
        candidates += [track.unit for track in description.tracks if track.id == selection.track]
    for unit in candidates:
        if unit is not None and (unit in holding or program.listing.ranges_of_unit(unit)):
            return unit
    return min(holding, default=None)


def focused_element(machine: Machine, selection: Selection, last: int | None = None) -> int | None:
    """The element a verb means: the selected one, the last one, or the first that runs something."""
    if not isinstance(machine, HasFabric):
        return None
    shape = machine.fabric
    place = selection.element
    if place is None and selection.unit is not None and isinstance(machine, HasElements):
        place = machine.element_of_unit(selection.unit)
    if place is not None and 0 <= place[0] < shape.columns and 0 <= place[1] < shape.rows:
        return place[1] * shape.columns + place[0]
    if last is not None and last < shape.columns * shape.rows:
        return last
    area = shape.program
    corner = area.row * shape.columns + area.column
    if isinstance(machine, HasFrames):
        for number in range(min(area.columns * area.rows, MAX_LOOKED_AT)):
            row, column = divmod(number, max(area.columns, 1))
            element = corner + row * shape.columns + column
            if machine.frames(element):
                return element
    return corner
