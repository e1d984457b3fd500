"""Answers requests for bytes of memories and for instructions."""

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Any

from npuviz.base.errors import UsageError
from npuviz.base.names import echo
from npuviz.debug.console.arguments import memory_of
from npuviz.debug.session import Session
from npuviz.protocols.dap.arguments import Arguments, hexadecimal, number_in, text_in
from npuviz.protocols.dap.places import Places
from npuviz.sim.description import Memory

MOST_BYTES = 1 << 20
MOST_INSTRUCTIONS = 10_000
_AREA = re.compile(r"(?P<memory>.+?)[ @](?P<address>0x[0-9a-fA-F]{1,16}|\d{1,19})(?: (?P<size>\d{1,12}))?")


@dataclass(frozen=True, slots=True)
class Area:
    """A range of bytes of a memory."""

    memory: Memory
    address: int
    size_bytes: int

    @property
    def reference(self) -> str:
        """Memory reference of its first byte."""
        return f"{self.memory.name}@{self.address:#x}"

    @property
    def data_id(self) -> str:
        """Data id of the whole range."""
        return f"{self.reference} {self.size_bytes}"


def parse_area(session: Session, text: str) -> Area:
    """Parse "HBM@0x1000 64" or "HBM 0x1000"; without a size it is 1 byte. Raises UsageError."""
    match = _AREA.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{echo(text)!r}: expected a memory and an address, such as HBM@0x1000")
    memory = memory_of(session, match["memory"])
    address = hexadecimal(match["address"], "an address")
    size = int(match["size"] or 1)
    if address >= memory.size_bytes or size < 1:
        raise UsageError(f"{echo(text)}: expected bytes within the {memory.size_bytes} of {memory.name}")
    return Area(memory, address, min(size, memory.size_bytes - address))


def read_memory(session: Session, arguments: Arguments) -> dict[str, Any]:
    """Return the body of a readMemory response: the requested bytes that exist, and the number of those that
    do not."""
    area, address = _place(session, arguments)
    count = number_in(arguments, "count")
    if not 0 <= count <= MOST_BYTES:
        raise UsageError(f"count {count}: expected 0 to {MOST_BYTES} bytes")
    if not 0 <= address < area.memory.size_bytes:
        return {"address": hex(max(address, 0)), "unreadableBytes": count}
    size = min(count, area.memory.size_bytes - address)
    data = session.machine.read_memory(area.memory.id, address, size) if size else b""
    return {
        "address": hex(address),
        "data": base64.b64encode(data).decode(),
        "unreadableBytes": count - size,
    }


def write_memory(session: Session, arguments: Arguments) -> dict[str, Any]:
    """Write bytes of a memory. Returns the body of the writeMemory response."""
    area, address = _place(session, arguments)
    try:
        data = base64.b64decode(text_in(arguments, "data"), validate=True)
    except (binascii.Error, ValueError):
        raise UsageError("data: expected base64") from None
    room = area.memory.size_bytes - address
    if address < 0 or room < 0 or (len(data) > room and not arguments.get("allowPartial")):
        raise UsageError(f"expected bytes within the {area.memory.size_bytes} of {area.memory.name}")
    session.write_memory(area.memory.id, address, data[:room])
    return {"bytesWritten": min(len(data), room)}


def _place(session: Session, arguments: Arguments) -> tuple[Area, int]:
    area = parse_area(session, text_in(arguments, "memoryReference"))
    return area, area.address + number_in(arguments, "offset", 0)


def disassemble(session: Session, places: Places, arguments: Arguments) -> dict[str, Any]:
    """Return the body of a disassemble response, with exactly as many rows as requested."""
    index = hexadecimal(text_in(arguments, "memoryReference"), "an instruction, such as 0x1a")
    first = index + number_in(arguments, "offset", 0) + number_in(arguments, "instructionOffset", 0)
    count = number_in(arguments, "instructionCount")
    if not 0 <= count <= MOST_INSTRUCTIONS:
        raise UsageError(f"instructionCount {count}: expected 0 to {MOST_INSTRUCTIONS}")
    listing = session.program.listing
    rows: list[dict[str, Any]] = []
    for number in range(first, first + count):
        if not 0 <= number < len(listing):
            rows.append({"address": hex(max(number, 0)), "instruction": "", "presentationHint": "invalid"})
            continue
        place = places.location(number)
        location = {"location": place["source"], "line": place["line"]}
        rows.append({"address": hex(number), "instruction": listing.describe(number).text, **location})
    return {"instructions": rows}
