# Kernels against functions of the user's own: what is compared, how closely, and what is said.
import pytest

from npuviz.base.errors import NpuvizError, UsageError
from npuviz.base.progress import NoProgress
from npuviz.sim.check_result import CheckResult
from npuviz.sim.stop import NO_STOPS, StopKind
from npuviz.targets.neuroncore.machine.machine import NeuronMachine
from npuviz.targets.neuroncore.nki import user_python
from npuviz.targets.neuroncore.nki.record.machine_in_use import compiled_for
from npuviz.targets.neuroncore.spec import make_spec
from npuviz.targets.neuroncore.target import TARGET
from tests.targets.neuroncore.nki.running import SECOND, loaded, random

KERNEL = (
    SECOND
    + """
import numpy as np

@nki.jit
def kernel(a, factor=2.0):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    total = nl.ndarray((a.shape[0], 1), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    row = nl.ndarray((a.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    nisa.tensor_reduce(dst=row, op=nl.add, data=tile, axis=1)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
    nisa.dma_copy(dst=out, src=tile)
    nisa.dma_copy(dst=total, src=row)
    return out, total

def right(a, factor):
    return factor * a, a.sum(1, keepdims=True)

def first_only(a):
    return 2 * a

def wrong(a):
    a = 2 * a
    a[3, 5] += 1
    return a

def slightly_wrong(a):
    return 2 * a * 1.00005

def of_other_shape(a):
    return np.zeros((4, 4))

def fails(a):
    raise RuntimeError("no")

def by_name(a):
    return {"total": a.sum(1, keepdims=True)}

def of_two(b, c, d):
    return b, c

def forever(a):
    while True:
        pass
"""
)


def _checked(folder, name: str, shape: str = "8x16", kernel: str = KERNEL) -> CheckResult:
    spec, program = loaded(folder, kernel, {}, **{"shape.a": shape, "reference": name})
    machine = NeuronMachine(spec, program)
    assert machine.advance(1 << 62, NO_STOPS, None).kind == StopKind.FINISHED
    return TARGET.check(machine, NoProgress())


def test_both_outputs_are_right_in_every_type(tmp_path) -> None:
    for dtype in ("float32", "bfloat16", "float16"):
        found = _checked(tmp_path, "kernel:right", f"8x16:{dtype}")
        assert (found.is_passed, found.num_tensors, dict(found.not_compared)) == (True, 2, {})
        assert dtype in found.tolerance


def test_what_the_reference_does_not_give_is_said(tmp_path) -> None:
    found = _checked(tmp_path, "first_only")
    assert found.is_passed
    assert list(found.not_compared.values()) == [("total",)]
    found = _checked(tmp_path, "kernel.py:by_name")
    assert (found.is_passed, list(found.not_compared.values())) == (True, [("out",)])


def test_a_wrong_element_is_named_with_the_line_that_made_it(tmp_path) -> None:
    found = _checked(tmp_path, "wrong")
    assert not found.is_passed
    assert "wrong in 1 of 128 elements" in found.findings[0].text
    assert "the first at [3, 5]" in found.findings[0].text
    lines = KERNEL.splitlines()
    computed = next(n for n, line in enumerate(lines, 1) if "tensor_scalar(" in line)
    stored = next(n for n, line in enumerate(lines, 1) if "dst=out" in line)
    assert found.first_divergence.startswith("out (instruction ")
    assert f"at kernel.py:{computed}, stored" in found.first_divergence
    assert found.first_divergence.endswith(f"at kernel.py:{stored})")


def test_an_error_of_all_elements_that_each_tolerance_lets_pass_is_found_as_a_whole(tmp_path) -> None:
    found = _checked(tmp_path, "slightly_wrong")
    assert not found.is_passed
    assert "relative L2" in found.findings[0].text
    assert _checked(tmp_path, "slightly_wrong", "8x16:bfloat16").is_passed


def test_another_shape_is_wrong(tmp_path) -> None:
    found = _checked(tmp_path, "of_other_shape")
    assert found.findings[0].text == "has shape [8, 16], the reference's has [4, 4]"
    assert not found.is_passed


IN_PLACE = (
    SECOND
    + """
@nki.jit
def kernel(a):
    tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
    nisa.dma_copy(dst=a, src=tile)

def right(a):
    a += 1

def wrong(a):
    a -= 1
"""
)


def test_tensors_that_change_in_place_are_compared(tmp_path) -> None:
    assert _checked(tmp_path, "right", kernel=IN_PLACE).is_passed
    assert not _checked(tmp_path, "wrong", kernel=IN_PLACE).is_passed


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_name", "has no function no_such_name; it has right, "),
        ("no_such_module:f", "no module no_such_module, and no file no_such_module.py in "),
        ("kernel:", "expected module:function"),
        ("fails", r"kernel.py:\d+: RuntimeError: no"),
        ("of_two", "of_two takes b, c, d; the kernel's parameters are a, factor"),
    ],
)
def test_a_reference_that_cannot_be_used_is_one_line(tmp_path, name, message) -> None:
    with pytest.raises(NpuvizError, match=message) as caught:
        _checked(tmp_path, name)
    assert "\n" not in str(caught.value)


def test_a_reference_without_an_end_is_stopped(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(user_python, "MAX_SECONDS", 0.3)
    with pytest.raises(UsageError, match=r"without an end, at kernel.py:\d+;"):
        _checked(tmp_path, "forever")


def test_tensors_are_called_as_the_text_calls_them(tmp_path) -> None:
    text = (
        SECOND
        + """
def helper(a):
    made = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    return made

def passed_on(a):
    return nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)

@nki.jit
def kernel(a):
    named = passed_on(a)
    first, second = passed_on(a), nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    inner = helper(a)
    many = [passed_on(a) for _ in range(1)]
    many.append(nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf))
    given = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf, name="own")
    for tile in (named, first, second, inner, *many, given):
        nisa.dma_copy(dst=tile, src=a)
    result = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=result, src=named)
    return result
"""
    )
    path = tmp_path / "names.py"
    path.write_text(text)
    with user_python.stand_ins(tmp_path), compiled_for(make_spec("trn2", None, {})[0]):
        traced = user_python.imported(path).kernel.trace((random(8, 4),), {})
    names = [each.name for each in traced.recording.storages]
    assert names == ["a", "named", "first", "second", "made", "many", "many", "own", "result"]
