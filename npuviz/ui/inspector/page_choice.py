"""Choose the inspector's page for a selection, which may name several things: the most specific wins."""

from npuviz.ui.inspector.element import fabric_page
from npuviz.ui.inspector.facts import InspectorSource
from npuviz.ui.inspector.instruction import instruction_page, memory_page
from npuviz.ui.inspector.machine import machine_page, range_page, track_page, unit_page
from npuviz.ui.inspector.operator import operator_page, tensor_page, trace_node_page
from npuviz.ui.inspector.page import Page
from npuviz.workbench.selection import Selection


def make_page(source: InspectorSource, selection: Selection) -> Page:
    """Return the page of the most specific selected thing; of the machine if nothing known is selected."""
    listing = source.program.listing if source.program else None
    if selection.instruction is not None and listing and 0 <= selection.instruction < len(listing):
        return instruction_page(source, listing.describe(selection.instruction))
    if selection.memory is not None and source.memory(selection.memory.memory) is not None:
        return memory_page(source, selection.memory)
    if selection.tensor is not None and (tensor := source.tensor(selection.tensor)) is not None:
        return tensor_page(source, tensor)
    return _page_of_place(source, selection)


def _page_of_place(source: InspectorSource, selection: Selection) -> Page:
    """Return the page of an element or word, track, operator, range or unit, in this order; else the
    machine's.
    """
    is_track = selection.track is not None
    if (selection.element is not None or selection.word is not None) and not is_track:
        page = fabric_page(source, selection)
        if page is not None:
            return page
    schema = source.reader.schema if source.reader else None
    if selection.track is not None and schema and 0 <= selection.track < len(schema.tracks):
        return track_page(source, schema.tracks[selection.track], selection.cycles)
    if selection.node is not None:
        node = source.node(selection.node)
        if node is not None:
            return operator_page(source, node)
        if schema and 0 <= selection.node < len(schema.node_names):
            return trace_node_page(source, selection.node)
    if selection.cycles is not None:
        return range_page(source, selection.cycles)
    if selection.unit is not None and (unit := source.unit(selection.unit)) is not None:
        return unit_page(source, unit)
    return machine_page(source)
