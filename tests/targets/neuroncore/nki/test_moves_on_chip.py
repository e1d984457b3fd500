# DMAs from SBUF to SBUF: to other partitions, into another type; sums of whole numbers in a shorter type.
import ml_dtypes
import numpy as np
import pytest

from tests.targets.neuroncore.nki.running import SECOND, loaded, outputs_of, random

TYPES = {"float32": np.float32, "bfloat16": ml_dtypes.bfloat16, "int32": np.int32, "int8": np.int8}


@pytest.mark.parametrize("preset", ["trn1", "trn2"])
@pytest.mark.parametrize(
    ("source", "target"),
    [("bfloat16", "float32"), ("float32", "bfloat16"), ("int32", "float32"), ("float32", "int8")],
)
def test_a_dma_within_sbuf_casts(tmp_path, preset, source, target) -> None:
    text = f"""{SECOND}
@nki.jit
def kernel(a):
    held = nl.ndarray((64, 32), dtype=nl.{source}, buffer=nl.sbuf)
    nisa.dma_copy(dst=held, src=a)
    row = nl.ndarray((1, 64), dtype=nl.{target}, buffer=nl.sbuf)
    nisa.dma_copy(dst=row[0:1, 0:32], src=held[40:41, 0:32])
    nisa.dma_copy(dst=row[0:1, 32:64], src=held[7:8, 0:32])
    out = nl.ndarray((1, 64), dtype=nl.{target}, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=row)
    return out
"""
    a = (random(64, 32) * 20).round().astype(TYPES[source])
    (found,) = outputs_of(*loaded(tmp_path, text, {"a": a}, preset=preset))
    assert (found[0] == np.concatenate((a[40], a[7])).astype(TYPES[target])).all()


def test_whole_numbers_in_a_shorter_type_are_computed_in_float_and_kept_in_range(tmp_path) -> None:
    text = f"""{SECOND}
@nki.jit
def kernel(a):
    held = nl.ndarray((64, 32), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=held, src=a)
    short = nl.ndarray((64, 32), dtype=nl.uint8, buffer=nl.sbuf)
    nisa.tensor_tensor(short, held, held, nl.add)
    out = nl.ndarray((64, 32), dtype=nl.uint8, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=short)
    return out
"""
    a = (random(64, 32) * 100).astype(np.int32)
    (found,) = outputs_of(*loaded(tmp_path, text, {"a": a}, preset="trn2"))
    assert (found == (2 * a).clip(0, 255)).all()
