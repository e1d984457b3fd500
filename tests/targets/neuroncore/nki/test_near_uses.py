"""Loops that only fill or store blocks are joined with those that use them, where SBUF is too small."""

import numpy as np
import pytest

from npuviz.program.program import Program
from tests.targets.neuroncore.nki.running import FIRST, loaded, outputs_of, random

_BLOCKS = """
@nki.jit
def kernel(a):
    out = nl.ndarray((BLOCKS, 128, 1024), dtype=a.dtype, buffer=nl.shared_hbm)
    kept = nl.zeros((BLOCKS, nl.par_dim(128), 1026), dtype=a.dtype, buffer=nl.sbuf)
    made = nl.ndarray((BLOCKS, nl.par_dim(128), 1024), dtype=a.dtype, buffer=nl.sbuf)
    p, f = nl.arange(128)[:, None], nl.arange(1024)[None, :]
    for k in nl.affine_range(BLOCKS):
        kept[k, p, f + 1] = nl.load(a[k, p, f])
    for k in nl.affine_range(BLOCKS):
        made[BLOCKS - 1 - k, p, f] = nl.add(kept[BLOCKS - 1 - k, p, f], kept[BLOCKS - 1 - k, p, f + 2])
    for k in nl.affine_range(BLOCKS):
        nl.store(out[PLACE, p, f], made[k, p, f])
    return out
"""


def _run(
    tmp_path, blocks: int, text: str = _BLOCKS, place: str = "k"
) -> tuple[np.ndarray, np.ndarray, Program]:
    a = random(blocks, 128, 1024)
    made = FIRST + text.replace("BLOCKS", str(blocks)).replace("PLACE", place)
    spec, program = loaded(tmp_path, made, {"a": a}, preset="trn1")
    padded = np.pad(a, ((0, 0), (0, 0), (1, 1)))
    return outputs_of(spec, program)[0], padded[..., :-2] + padded[..., 2:], program


def _notes(program: Program) -> set[str]:
    found = {"moved" for note in program.notes if "right before its first use" in note.text}
    return found | {note.code for note in program.notes if note.code == "spilled"}


@pytest.mark.parametrize(("blocks", "said"), [(12, set()), (50, {"moved"})])
def test_blocks_that_do_not_fit_are_filled_and_stored_where_they_are_used(tmp_path, blocks, said) -> None:
    got, wanted, program = _run(tmp_path, blocks)
    assert np.allclose(got, wanted)
    assert _notes(program) == said
    tables = program.payload.tables
    reads = [
        source.num_bytes
        for transfer in tables.transfers
        for each in transfer.descriptors
        for source in each.sources
        if source.variable >= 0
    ]
    assert sum(reads) == got.nbytes


def test_stores_of_one_place_keep_their_order(tmp_path) -> None:
    got, wanted, program = _run(tmp_path, 50, place="k % 25")
    assert np.allclose(got[:25], wanted[25:])
    assert _notes(program) == {"spilled"}


def test_what_is_read_back_is_stored_where_it_was(tmp_path) -> None:
    text = _BLOCKS.replace(
        "    return out", "    nl.store(out[0, p, f], nl.load(out[1, p, f]))\n    return out"
    )
    got, wanted, program = _run(tmp_path, 50, text)
    assert np.allclose(got[1:], wanted[1:])
    assert np.allclose(got[0], wanted[1])
    assert _notes(program) == {"spilled"}
