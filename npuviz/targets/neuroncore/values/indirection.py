"""Plan the copy whose elements are chosen by a tile of offsets."""

import numpy as np

from npuviz.targets.neuroncore.isa import DST, SRC0, SRC1, Flag
from npuviz.targets.neuroncore.values.memory import ValueFault
from npuviz.targets.neuroncore.values.plan import Build, Plan


def indirect_copy(build: Build) -> Plan:
    """Plan DST[p,i] = SRC0[p, offset i], or DST[p, offset i] = SRC0[p,i] with Flag.SCATTER_TARGET.

    SRC1 holds imm0 offsets in its first imm1 partitions, partition first. An offset beyond the tile gives
    0, or is not written, and is a hazard.
    """
    source, index, target = build.source(SRC0), build.source(SRC1), build.target(DST)
    count, group = build.ins.bits[0], build.ins.bits[1]
    scatters = build.ins.has(Flag.SCATTER_TARGET)
    plain, picked = (source, target) if scatters else (target, source)
    rows, limit = picked.partitions, picked.count
    if plain.partitions != rows or source.view.dtype != target.view.dtype or group < 1:
        raise ValueFault("INDIRECT_COPY stays within its partitions and does not cast")
    if plain.count != count or count > index.count * min(group, index.partitions):
        raise ValueFault(f"{count} offsets do not give {plain.count} elements")
    a, out, indices = source.view, target.view, index.view
    report, number = build.report, build.ins.index

    def run() -> None:
        held = indices.reshape(index.partitions, -1)[:group].astype(np.int64)
        offsets = held.T.reshape(-1)[:count]
        wrong = (offsets < 0) | (offsets >= limit)
        if wrong.any():
            report(
                "index-range",
                f"instruction {number}: index {int(offsets[wrong][0])} is outside 0..{limit - 1}",
            )
        if scatters:
            made = out.reshape(rows, limit).copy()
            made[:, offsets[~wrong]] = a.reshape(rows, count)[:, ~wrong]
        else:
            made = a.reshape(rows, limit)[:, np.where(wrong, 0, offsets)]
            made[:, wrong] = 0
        np.copyto(out, made.reshape(out.shape))

    return build.finish(run)
