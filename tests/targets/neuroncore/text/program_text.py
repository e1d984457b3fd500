"""Programs as text: one instruction a line, what a DMA_COPY starts on indented lines below it."""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from npuviz.targets.neuroncore.tables import SBUF, Access, Descriptor, Transfer
from npuviz.targets.neuroncore.text.disassembler import instruction_text


def disassemble(instructions: np.ndarray, transfers: Mapping[int, Transfer]) -> Iterator[str]:
    """The lines of a program; `transfers` holds the transfer of each DMA_COPY by instruction."""
    for index in range(len(instructions)):
        yield instruction_text(instructions[index])
        if index in transfers:
            yield from transfer_lines(transfers[index])


def transfer_lines(transfer: Transfer) -> Iterator[str]:
    """The lines below a DMA_COPY."""
    parts = [f"queue={transfer.queue}", f'trigger="{transfer.trigger}"']
    if transfer.semaphore >= 0:
        parts.append(f"semaphore={transfer.semaphore}")
    if transfer.event >= 0:
        parts.append(f"event={transfer.event}")
    if transfer.remote_semaphores:
        parts.append(f"remote={_numbers(transfer.remote_semaphores)}")
    if transfer.first_queue:
        parts.append("first_queue")
    yield f"    transfer {' '.join(parts)}"
    for descriptor in transfer.descriptors:
        yield f"    {descriptor_text(descriptor)}"


def descriptor_text(descriptor: Descriptor) -> str:
    """One descriptor on one line."""
    sources = ", ".join(access_text(each) for each in descriptor.sources)
    parts = [descriptor.op, f"{access_text(descriptor.to)} <- {sources}"]
    if descriptor.scales:
        parts.append(f"scales={','.join(repr(float(each)) for each in descriptor.scales)}")
    if descriptor.constant is not None:
        parts.append(f"constant={float(descriptor.constant)!r}")
    if descriptor.transpose_shape:
        parts.append(f"shape={_numbers(descriptor.transpose_shape)}")
    if descriptor.element_size:
        parts.append(f"element={descriptor.element_size}")
    return " ".join(parts)


def access_text(access: Access, name: str = "") -> str:
    """`uint8:v3[0x100,64x1,128x4096]`: byte offset, sizes x steps, innermost first; `sb` is SBUF."""
    dims = ",".join(f"{size}x{step}" for size, step in zip(access.sizes, access.steps, strict=True))
    place = name or ("sb" if access.variable == SBUF else f"v{access.variable}")
    return f"{access.dtype}:{place}[{access.offset:#x},{dims}]"


def _numbers(values: Iterable[int]) -> str:
    return ",".join(str(each) for each in values)
