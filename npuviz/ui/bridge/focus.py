"""Which unit a verb means when it needs one."""

from npuviz.ui.bridge.session_model import SessionModel
from npuviz.workbench.selection import Selection


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
