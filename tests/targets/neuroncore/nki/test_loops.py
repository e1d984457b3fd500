# Loops of generation 1: the tracer runs a body once, so what it does in Python happens once.
import numpy as np
import pytest

from npuviz.targets.neuroncore.nki.record.loops import TRACED_ONCE
from tests.targets.neuroncore.nki.running import FIRST, SECOND, loaded, outputs_of, random

SHAPE = (128, 64)


def _kernel(loop: str, body: str, before: str = "n = 1.0", after: str = "pass", head: str = FIRST) -> str:
    return f"""{head}
def helper(n, turns):
    for i in range(turns):
        n += 1.0
    return n

@nki.jit
def kernel(a):
    out = nl.ndarray((4, 128, 64), dtype=a.dtype, buffer=nl.shared_hbm)
    {before}
    for i in {loop}:
        {body}
    {after}
    return out
"""


def _run(folder, text: str) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """(input, output, warnings about loops)."""
    a = random(*SHAPE)
    spec, program = loaded(folder, text, {"a": a})
    (found,) = outputs_of(spec, program)
    return a, found, [note.text for note in program.notes if note.code == TRACED_ONCE]


COUNTS = "nl.store(out[i], nl.multiply(nl.load(a), n)); n += 1.0"


@pytest.mark.parametrize("loop", ["affine_range", "sequential_range", "range"])
def test_a_number_is_the_same_in_every_turn(tmp_path, loop) -> None:
    called = loop if loop == "range" else f"nl.{loop}"
    a, out, said = _run(tmp_path, _kernel(f"{called}(4)", COUNTS))
    assert (out == a).all()
    (text,) = said
    assert text.startswith(f"{TRACED_ONCE}: kernel.py:17: n is changed in the body of a loop of {loop}, ")
    assert "n is 1.0 at the beginning of every turn" in text


def test_after_the_loop_the_body_has_run_once(tmp_path) -> None:
    after = "nl.store(out[3], nl.multiply(nl.load(a), n))"
    a, out, _ = _run(tmp_path, _kernel("nl.affine_range(4)", COUNTS, after=after))
    assert (out[2] == a).all()
    assert (out[3] == 2 * a).all()


@pytest.mark.parametrize(
    ("loop", "head", "body"),
    [
        ("nl.static_range(4)", FIRST, COUNTS),
        ("nl.affine_range(4)", FIRST, "n = float(i + 1); nl.store(out[i], nl.multiply(nl.load(a), n))"),
        ("nl.affine_range(4)", FIRST, "nl.store(out[i], nl.multiply(nl.load(a), helper(1.0, i)))"),
        ("nl.affine_range(4)", SECOND, COUNTS),
        ("range(4)", SECOND, COUNTS),
    ],
)
def test_what_is_unrolled_or_set_anew_in_each_turn_has_each_turns_value(tmp_path, loop, head, body) -> None:
    a, out, said = _run(tmp_path, _kernel(loop, body, head=head))
    assert (out == a * np.arange(1, 5, dtype=np.float32)[:, None, None]).all()
    assert not said


def test_an_inner_loop_begins_with_what_the_outer_turn_has_set(tmp_path) -> None:
    inner = "for j in nl.affine_range(2):\n            n = n * 2.0"
    body = f"n = float(i)\n        {inner}\n        nl.store(out[i], nl.multiply(nl.load(a), n))"
    a, out, said = _run(tmp_path, _kernel("nl.affine_range(4)", body))
    assert (out == a * 2 * np.arange(4, dtype=np.float32)[:, None, None]).all()
    assert len(said) == 1


def test_a_variable_that_only_one_branch_sets_is_carried(tmp_path) -> None:
    body = "n = 5.0 if i == 0 else n\n        nl.store(out[i], nl.multiply(nl.load(a), n))"
    a, out, said = _run(tmp_path, _kernel("nl.affine_range(4)", body))
    assert (out[0] == 5 * a).all()
    assert (out[1:] == a).all()
    assert len(said) == 1


def test_a_variable_of_an_outer_function_is_put_back_too(tmp_path) -> None:
    body = "nl.store(out[i], nl.multiply(nl.load(a), n)); count()"
    before = "n = 1.0\n    def count():\n        nonlocal n\n        n += 1.0"
    a, out, _ = _run(tmp_path, _kernel("nl.affine_range(4)", body, before))
    assert (out == a).all()


def test_a_tile_that_is_shadowed_is_said(tmp_path) -> None:
    body = "t = nl.add(t, 1.0)\n        nl.store(out[i], t)"
    a, out, said = _run(tmp_path, _kernel("nl.sequential_range(4)", body, "t = nl.load(a)"))
    assert np.allclose(out, a + 1)
    (text,) = said
    assert "kernel.py:17: t is changed" in text
    assert "t[...] = updates it" in text


def test_a_tile_that_is_updated_in_place_is_carried(tmp_path) -> None:
    body = "t += 1.0\n        nl.store(out[i], t)"
    a, out, said = _run(tmp_path, _kernel("nl.sequential_range(4)", body, "t = nl.load(a)"))
    assert np.allclose(out, a + np.arange(1, 5)[:, None, None])
    assert not said


def test_a_list_that_grows_is_said(tmp_path) -> None:
    body = "seen.append(i)\n        nl.store(out[i], nl.load(a))"
    _, _, said = _run(tmp_path, _kernel("nl.affine_range(4)", body, "seen = []"))
    (text,) = said
    assert text.startswith(
        f"{TRACED_ONCE}: kernel.py:16: seen gets 1 more in each turn of a loop of affine_range"
    )
