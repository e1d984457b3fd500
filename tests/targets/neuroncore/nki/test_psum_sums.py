"""Products of generation 2 that are added to what PSUM holds: the first write of an element overwrites."""

from pathlib import Path

import numpy as np
import pytest

from npuviz.targets.neuroncore.nki.record.sums import boxes_without
from tests.sweeps import seeds
from tests.targets.neuroncore.nki.running import SECOND, loaded, outputs_of, ran, random

_BEGIN = (
    SECOND
    + """

@nki.jit
def kernel(x, y):
    ours, theirs = nl.ndarray((64, 32), x.dtype), nl.ndarray((64, 128), y.dtype)
    nisa.dma_copy(dst=ours, src=x)
    nisa.dma_copy(dst=theirs, src=y)
    kept = nl.ndarray((32, 128), nl.float32)
    nisa.memset(kept, 0.0)
    total = nl.ndarray((32, 128), nl.float32, buffer=nl.psum)
"""
)
_END = """
    out = nl.ndarray((32, 128), nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=kept)
    return out
"""
_INPUTS = {"x": random(64, 32), "y": random(64, 128, seed=1)}


def _ran(tmp_path: Path, body: str, **settings: str) -> np.ndarray:
    return ran(tmp_path, _BEGIN + body + _END, _INPUTS, **settings)


def test_a_read_between_two_products_does_not_begin_a_new_sum(tmp_path: Path) -> None:
    body = """
    for turn in range(3):
        nisa.nc_matmul(total, ours, theirs)
        nisa.tensor_tensor(kept, kept, total, nl.add)
"""
    np.testing.assert_allclose(_ran(tmp_path, body), 6 * _INPUTS["x"].T @ _INPUTS["y"], rtol=1e-5, atol=1e-4)


def test_a_tile_made_in_each_turn_begins_with_its_first_product(tmp_path: Path) -> None:
    body = """
    for turn in range(3):
        mine = nl.ndarray((32, 128), nl.float32, buffer=nl.psum)
        nisa.nc_matmul(mine, ours, theirs)
        nisa.nc_matmul(mine, ours, theirs)
        nisa.tensor_tensor(kept, kept, mine, nl.add)
"""
    np.testing.assert_allclose(_ran(tmp_path, body), 6 * _INPUTS["x"].T @ _INPUTS["y"], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(("first", "factor"), [("False", 1), ("None", 2), ("True", 2)])
def test_what_a_kernel_says_counts(tmp_path: Path, first: str, factor: int) -> None:
    body = f"""
    nisa.nc_matmul(total, ours, theirs)
    nisa.nc_matmul(total, ours, theirs, accumulate={first})
    nisa.tensor_copy(kept, total)
"""
    expected = factor * _INPUTS["x"].T @ _INPUTS["y"]
    np.testing.assert_allclose(_ran(tmp_path, body), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("seed", seeds(4, 40, 200))
def test_products_into_overlapping_parts_are_added_where_they_overlap(tmp_path: Path, seed: int) -> None:
    """Windows of columns and partitions with steps, in any order, with reads between them."""
    draw = np.random.default_rng(seed)
    lines: list[str] = []
    held, kept = np.zeros((32, 128), np.float32), np.zeros((32, 128), np.float32)
    written = np.zeros((32, 128), np.bool_)
    for _ in range(int(draw.integers(2, 9))):
        if draw.random() < 0.3 and written.any():
            end = 32 if written.all() else 1
            a = 0 if written.all() else int(np.flatnonzero(written[0])[0])
            c = 128 if written.all() else a + 1
            lines.append(f"    nisa.tensor_copy(kept[0:{end}, {a}:{c}], total[0:{end}, {a}:{c}])")
            kept[:end, a:c] = held[:end, a:c]
        else:
            end, step = int(draw.choice([32, 32, 16])), int(draw.choice([1, 1, 2, 3]))
            count = int(draw.integers(1, 128 // step))
            at = int(draw.integers(0, 128 - (count - 1) * step))
            first = int(draw.integers(0, 128 - count + 1))
            last = at + (count - 1) * step + 1
            lines.append(
                f"    nisa.nc_matmul(total[0:{end}, {at}:{last}:{step}], ours[:, 0:{end}], "
                f"theirs[:, {first}:{first + count}])"
            )
            part = (slice(0, end), slice(at, last, step))
            held[part] += _INPUTS["x"][:, :end].T @ _INPUTS["y"][:, first : first + count]
            written[part] = True
    lines += ["    nisa.nc_matmul(total, ours, theirs)", "    nisa.tensor_tensor(kept, kept, total, nl.add)"]
    kept += held + _INPUTS["x"].T @ _INPUTS["y"]
    np.testing.assert_allclose(_ran(tmp_path, "\n".join(lines)), kept, rtol=1e-5, atol=1e-4)


def test_a_product_beside_written_elements_fills_the_rest_and_says_so(tmp_path: Path) -> None:
    body = """
    nisa.nc_matmul(total[:, 0:64], ours, theirs[:, 0:64])
    nisa.nc_matmul(total[:, 32:128], ours, theirs[:, 32:128])
    nisa.tensor_copy(kept, total)
"""
    spec, program = loaded(tmp_path, _BEGIN + body + _END, _INPUTS)
    (found,) = outputs_of(spec, program)
    expected = _INPUTS["x"].T @ _INPUTS["y"]
    expected[:, 32:64] *= 2
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)
    assert any("of which some elements were written before" in note.text for note in program.notes)


def test_what_another_engine_wrote_is_added_to(tmp_path: Path) -> None:
    body = """
    nisa.memset(total, 2.0)
    nisa.nc_matmul(total, ours, theirs)
    nisa.tensor_copy(kept, total)
"""
    expected = 2 + _INPUTS["x"].T @ _INPUTS["y"]
    np.testing.assert_allclose(_ran(tmp_path, body, preset="trn3"), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("preset", ["trn2", "trn3"])
@pytest.mark.parametrize("value", ["0.0", "3.0"])
@pytest.mark.parametrize(("said", "is_added"), [("", True), (", accumulate=False", False)])
def test_products_after_a_memset_of_some_columns(
    tmp_path: Path, preset: str, value: str, said: str, is_added: bool
) -> None:
    body = f"""
    nisa.memset(total[:, 16:80], {value})
    nisa.nc_matmul(total, ours, theirs{said})
    nisa.tensor_copy(kept, total)
"""
    expected = _INPUTS["x"].T @ _INPUTS["y"]
    if is_added:
        expected[:, 16:80] += float(value)
    np.testing.assert_allclose(_ran(tmp_path, body, preset=preset), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("preset", "body", "is_told"),
    [
        ("trn2", "nisa.memset(total[:, 16:80], 1.0)\n    nisa.nc_matmul(total, ours, theirs)", True),
        ("trn3", "nisa.memset(total[:, 16:80], 1.0)\n    nisa.nc_matmul(total, ours, theirs)", False),
        ("trn2", "nisa.memset(total, 0.0)\n    nisa.nc_matmul(total, ours, theirs)", False),
        ("trn2", "nisa.tensor_copy(total, kept)\n    nisa.nc_matmul(total, ours, theirs)", True),
        (
            "trn2",
            "nisa.memset(total, 1.0)\n    nisa.nc_matmul(total, ours, theirs, accumulate=False)\n"
            "    nisa.nc_matmul(total, ours, theirs)",
            False,
        ),
        (
            "trn2",
            "nisa.memset(total[:, 0:16], 1.0)\n"
            "    nisa.nc_matmul(total[:, 16:128], ours, theirs[:, 16:128])\n"
            "    nisa.nc_matmul(total[:, 16:128], ours, theirs[:, 16:128])",
            False,
        ),
        (
            "trn2",
            "nisa.nc_matmul(total[:, 0:64], ours, theirs[:, 0:64])\n    nisa.nc_matmul(total, ours, theirs)",
            False,
        ),
        (
            "trn2",
            "nisa.nc_matmul(total[0:16], ours[:, 0:16], theirs)\n    nisa.nc_matmul(total, ours, theirs)",
            False,
        ),
    ],
    ids=["memset", "v4", "zeros", "copy", "begun anew", "beside it", "ours", "put back"],
)
def test_sums_on_what_others_wrote_are_a_warning_before_v4(
    tmp_path: Path, preset: str, body: str, is_told: bool
) -> None:
    text = _BEGIN + f"    {body}\n    nisa.tensor_copy(kept, total)\n" + _END
    line = text[: text.rindex("nisa.nc_matmul")].count("\n") + 1
    _, program = loaded(tmp_path, text, _INPUTS, preset=preset)
    found = [each for each in program.notes if each.text.startswith("undefined-on-chip")]
    assert len(found) == is_told
    assert all(each.severity == "warning" and f": kernel.py:{line}: " in each.text for each in found)


@pytest.mark.parametrize("seed", seeds(3, 30, 100))
def test_boxes_cover_what_is_not_set_once(seed: int) -> None:
    draw = np.random.default_rng(seed)
    mask = draw.random((5, 4, 3)[: int(draw.integers(1, 4))]) < draw.choice([0.0, 0.3, 0.7, 1.0])
    found = np.zeros(mask.shape, np.int64)
    for box in boxes_without(mask):
        found[tuple(slice(*each) for each in box)] += 1
    np.testing.assert_array_equal(found, ~mask)
