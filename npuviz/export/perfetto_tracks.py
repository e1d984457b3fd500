"""Build the tree of tracks that Perfetto shows: the machine, its groups, their units and counters."""

from dataclasses import dataclass

from npuviz.base.names import elide_middle
from npuviz.trace.schema import TraceSchema, Track

MACHINE_UUID = 1
_EXPLICIT_ORDER = 3
_UNIT_COUNT = 2
_UNIT_BYTES = 3


def varint(value: int) -> bytes:
    """Encode a protobuf number; negative ones as 64-bit two's complement."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    """Encode a field that holds a number."""
    return varint(field << 3) + varint(value)


def message(field: int, data: bytes | str) -> bytes:
    """Encode a field that holds a message or a text."""
    data = data.encode() if isinstance(data, str) else data
    return varint(field << 3 | 2) + varint(len(data)) + data


def packet(sequence: int, *fields: bytes) -> bytes:
    """Encode a trace packet of a sequence."""
    return message(1, number(10, sequence) + b"".join(fields))


def names_packet(
    sequence: int, names: dict[int, str], annotations: dict[int, str], *, is_first: bool
) -> bytes:
    """Encode interned names of events and of annotations, by number;
    the first packet of a sequence clears its state."""
    data = b"".join(message(2, number(1, iid) + message(2, name)) for iid, name in names.items())
    data += b"".join(message(3, number(1, iid) + message(2, name)) for iid, name in annotations.items())
    return packet(sequence, number(13, 3 if is_first else 2), message(12, data))


@dataclass(frozen=True, slots=True)
class TrackTree:
    """Descriptor packets, and the number under which each track of the schema writes its events."""

    packets: bytes
    uuids: dict[int, int]


def track_tree(schema: TraceSchema, sequence: int) -> TrackTree:
    """Build the tree process (the machine) > group (`Core[0]`) > unit and counter, ordered as in the schema.

    The group of `Core[0].LD` is `Core[0]`; a counter `Core[0].LD.occupancy` is placed beside `LD`, not
    below it, because Perfetto folds what lies below a slice track.
    """
    title = " ".join(part for part in (schema.target, schema.title) if part) or "npuviz"
    process = message(3, number(1, 1) + message(6, elide_middle(title, 200)))
    packets = [_descriptor(sequence, number(1, MACHINE_UUID), process, number(11, _EXPLICIT_ORDER))]
    interval_names = {track.name for track in schema.tracks if track.kind == "interval"}
    groups: dict[str, int] = {"": MACHINE_UUID}
    num_children: dict[int, int] = {}
    uuids: dict[int, int] = {}

    def place(parent: int) -> bytes:
        rank = num_children.get(parent, 0)
        num_children[parent] = rank + 1
        return number(5, parent) + number(12, rank)

    def group_of(path: str) -> int:
        if path not in groups:
            above, _, label = path.rpartition(".")
            parent = group_of(above)
            groups[path] = len(groups) + len(uuids) + 1
            fields = (number(1, groups[path]), message(2, label), place(parent), number(11, _EXPLICIT_ORDER))
            packets.append(_descriptor(sequence, *fields))
        return groups[path]

    for track in schema.tracks:
        path = track.name.rpartition(".")[0]
        while path in interval_names:
            path = path.rpartition(".")[0]
        parent = group_of(path)
        label = track.name[len(path) :].lstrip(".") or track.name
        uuids[track.id] = len(groups) + len(uuids) + 1
        fields = (number(1, uuids[track.id]), message(2, label), place(parent), _counter(track))
        packets.append(_descriptor(sequence, *fields, message(14, track.doc) if track.doc else b""))
    return TrackTree(b"".join(packets), uuids)


def _descriptor(sequence: int, *fields: bytes) -> bytes:
    return packet(sequence, message(60, b"".join(fields)))


def _counter(track: Track) -> bytes:
    if track.kind != "counter":
        return b""
    if track.measure == "bytes":
        return message(8, number(3, _UNIT_BYTES))
    if not track.measure:
        return message(8, number(3, _UNIT_COUNT))
    return message(8, message(6, track.measure))
