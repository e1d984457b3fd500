"""Convert transfers with static descriptors to the `dma` lists of a NEFF's engines, and back.

The entries with one id in an engine's list are one transfer; the last of them signals its completion.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from npuviz.base.errors import FormatError
from npuviz.formats.neff import model as nm
from npuviz.formats.neff.rules.dma import DTYPE_BYTES as NEFF_DTYPES
from npuviz.program.dtypes import DTYPES, numpy_dtype
from npuviz.targets.neuroncore.isa import Opcode
from npuviz.targets.neuroncore.neff.encoding import OPS
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.tables import SBUF, Access, Descriptor, Tables, Transfer

STATE_BUFFER = "SB"
"""Name of the variable that stands for SBUF; its var_id is 0, that of variable n is n + 1."""
_TO_NEFF = {"bool": "uint8", "float8_e4m3fn": "float8e4", "float8_e5m2": "float8e5"}
_FROM_NEFF = {
    "float8e3": "float8_e5m2",
    "float8e4": "float8_e4m3fn",
    "float8e5": "float8_e5m2",
    "float32r": "float32",
}
"""Assumed: float8e3 has no counterpart here and is taken as e5m2, float32r (tf32 rounding) as float32."""


def engine_entries(
    tables: Tables, core: int, names: Sequence[str], spec: NeuronSpec
) -> defaultdict[int, list[nm.DmaEntry]]:
    """Return the static descriptors of a core by the engine that triggers them, in order of transfers."""
    owner: dict[int, int] = {}
    for index in np.flatnonzero(tables.instructions["opcode"] == Opcode.DMA_TRIGGER).tolist():
        owner.setdefault(int(tables.transfer_of[index]), int(tables.instructions["engine"][index]))
    found: defaultdict[int, list[nm.DmaEntry]] = defaultdict(list)
    for index, transfer in enumerate(tables.transfers):
        if transfer.core == core and transfer.trigger == "static" and index in owner:
            found[owner[index]] += _entries_of(tables, transfer, names, spec)
    return found


def _entries_of(
    tables: Tables, transfer: Transfer, names: Sequence[str], spec: NeuronSpec
) -> list[nm.DmaEntry]:
    """Return an entry for each descriptor of a transfer; they share the id, and the last one signals."""
    queue = tables.queue_sets[transfer.queue].name
    entries: list[nm.DmaEntry] = []
    for number, each in enumerate(transfer.descriptors, 1):
        is_last = number == len(transfer.descriptors)
        entries.append(
            nm.DmaEntry(
                transfer.id,
                _descriptor(each, names, spec),
                queue,
                section_start_desc=transfer.first_queue,
                event=transfer.event if is_last and transfer.event >= 0 else None,
                semaphore=transfer.semaphore if is_last and transfer.semaphore >= 0 else None,
                remote_semaphores=transfer.remote_semaphores if is_last else (),
            )
        )
    return entries


def _descriptor(descriptor: Descriptor, names: Sequence[str], spec: NeuronSpec) -> nm.Descriptor:
    constant = descriptor.constant
    is_transpose = descriptor.op == "transpose"
    scales = (*descriptor.scales, *[None] * (len(descriptor.sources) - len(descriptor.scales)))
    return nm.Descriptor(
        _access(descriptor.to, None, names, spec),
        tuple(_access(e, s, names, spec) for e, s in zip(descriptor.sources, scales, strict=True)),
        descriptor.op,
        # Scales are fields of the sources, and only sources in from_arr have that field.
        uses_from_arr=len(descriptor.sources) > 1 or bool(descriptor.scales),
        constant=constant,
        constant_dtype=None if constant is None else "float32",
        transpose_shape=descriptor.transpose_shape if is_transpose else None,
        transpose_element_size=descriptor.element_size if is_transpose else None,
    )


def _access(access: Access, scale: float | None, names: Sequence[str], spec: NeuronSpec) -> nm.Access:
    name = STATE_BUFFER if access.variable == SBUF else names[access.variable]
    return nm.Access(name, access.offset, access.steps, access.sizes, neff_dtype(access.dtype, spec), scale)


def neff_dtype(dtype: str, spec: NeuronSpec) -> str:
    """Return the NEFF's DMA dtype for a type: uint8 on v1, else one of its size; the record keeps the
    type.
    """
    if spec.version == 1:
        return "uint8"
    if dtype in NEFF_DTYPES:
        return dtype
    if dtype in _TO_NEFF:
        return _TO_NEFF[dtype]
    size = numpy_dtype(dtype).itemsize
    return f"uint{8 * size}" if size in (1, 2, 4, 8) else "uint8"


def access_dtypes(transfers: Sequence[Transfer], spec: NeuronSpec) -> list[str]:
    """Return the element types of all accesses in order; [] if NEFF's names express them all."""
    found = [
        access.dtype
        for transfer in transfers
        for descriptor in transfer.descriptors
        for access in (descriptor.to, *descriptor.sources)
    ]
    is_lost = any(
        _FROM_NEFF.get(neff_dtype(each, spec), neff_dtype(each, spec)) != each for each in set(found)
    )
    return found if is_lost else []


# --- reading -----------------------------------------------------------------------------------


class Names:
    """The meaning of the names in one subgraph.

    variables  name -> index in `Tables.variables`, SBUF for a state buffer
    queues     name of a queue set or of an instance of one -> index in `Tables.queue_sets`
    """

    def __init__(self, variables: Mapping[str, int], queues: Mapping[str, int]) -> None:
        self.variables, self.queues = variables, queues


def read_transfers(engine: nm.EngineFile, core: int, names: Names, where: str) -> dict[int, Transfer]:
    """Return the transfers of an engine by id, in the order of their first entries.

    Raises FormatError if entries of one id disagree, or name something that is not declared.
    """
    groups: dict[int, list[nm.DmaEntry]] = {}
    for entry in engine.descriptors:
        groups.setdefault(entry.id, []).append(entry)
    return {number: _transfer(number, entries, core, names, where) for number, entries in groups.items()}


def _transfer(number: int, entries: Sequence[nm.DmaEntry], core: int, names: Names, where: str) -> Transfer:
    place = f"dma id {number}"
    queues = {entry.instance_name or entry.queue for entry in entries}
    semaphores = {entry.semaphore for entry in entries if entry.semaphore is not None}
    events = {entry.event for entry in entries if entry.event is not None}
    for what, found in (("queue", queues), ("semaphore", semaphores), ("event", events)):
        if len(found) > 1:
            text = ", ".join(sorted(str(each) for each in found))[:100]
            raise FormatError(
                where, field=place, expected=f"one {what} for all entries of the id", found=text
            )
    (queue,) = queues
    if queue not in names.queues:
        raise FormatError(where, field=place, expected="a declared queue set", found=repr(queue)[:100])
    if not 0 <= number < 1 << 32:
        raise FormatError(where, field=place, expected="an id of 32 bits", found=str(number))
    return Transfer(
        number,
        core,
        names.queues[queue],
        tuple(_read_descriptor(entry.desc, names, where, place) for entry in entries),
        "static",
        next(iter(semaphores), -1),
        next(iter(events), -1),
        tuple(dict.fromkeys(each for entry in entries for each in entry.remote_semaphores)),
        any(entry.section_start_desc for entry in entries),
    )


def _read_descriptor(desc: nm.Descriptor, names: Names, where: str, place: str) -> Descriptor:
    if desc.op not in OPS:
        raise FormatError(where, field=place, expected=f"one of {', '.join(OPS)}", found=desc.op[:40])
    scales: tuple[float, ...] = ()
    if desc.op == "fma":
        given = [desc.scale if each.scale is None else each.scale for each in desc.sources]
        scales = tuple(1.0 if each is None else float(each) for each in given)
    constant = float(desc.constant) if desc.constant is not None and desc.constant_dtype is not None else None
    return Descriptor(
        OPS[OPS.index(desc.op)],
        _read_access(desc.to_access, names, where, place),
        tuple(_read_access(each, names, where, place) for each in desc.sources),
        scales,
        constant,
        desc.transpose_shape or (),
        desc.transpose_element_size or 0,
    )


def _read_access(access: nm.Access, names: Names, where: str, place: str) -> Access:
    if access.variable not in names.variables:
        found = repr(access.variable)[:100]
        raise FormatError(where, field=place, expected="a declared variable", found=found)
    dtype = _FROM_NEFF.get(access.dtype, access.dtype)
    if dtype not in DTYPES:
        raise FormatError(where, field=place, expected="a known dtype", found=dtype[:40])
    return Access(names.variables[access.variable], access.offset, access.steps, access.sizes, dtype)


def with_dtypes(transfers: Sequence[Transfer], dtypes: Sequence[str]) -> list[Transfer]:
    """Return the transfers with the element types from `access_dtypes`. Raises ValueError if they do not
    fit.
    """
    left = iter(dtypes)

    def typed(access: Access) -> Access:
        dtype = next(left, "")
        numpy_dtype(dtype)
        return access if access.dtype == dtype else replace(access, dtype=dtype)

    found = [
        replace(
            transfer,
            descriptors=tuple(
                replace(each, to=typed(each.to), sources=tuple(typed(source) for source in each.sources))
                for each in transfer.descriptors
            ),
        )
        for transfer in transfers
    ]
    if next(left, None) is not None:
        raise ValueError("more element types than accesses")
    return found
