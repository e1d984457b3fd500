# The names that the stand-in modules have: the documented ones, and one line about each other one.
import importlib
import sys

import pytest

from npuviz.targets.neuroncore.nki.user_python import SHIMS
from tests.targets.neuroncore.nki.running import FIRST, SECOND, loaded, outputs_of, ran, random

MODULES = (
    *("neuronxcc.nki", "neuronxcc.nki.compiler", "neuronxcc.nki.isa", "neuronxcc.nki.isa.constants"),
    *("neuronxcc.nki.language", "neuronxcc.nki.language.constants", "neuronxcc.nki.typing", "nki"),
    *("nki.collectives", "nki.isa", "nki.isa.constants", "nki.language", "nki.typing"),
)


@pytest.fixture
def shims(monkeypatch):
    monkeypatch.syspath_prepend(str(SHIMS))
    yield
    for name in [each for each in sys.modules if each.partition(".")[0] in ("nki", "neuronxcc")]:
        del sys.modules[name]


@pytest.mark.parametrize("name", MODULES)
def test_a_module_lists_what_it_offers_and_nothing_of_ours(shims, name) -> None:
    module = importlib.import_module(name)
    assert dir(module) == sorted(module.__all__)
    assert all(hasattr(module, each) for each in module.__all__)
    for strange in ("Path", "Sequence", "Any", "KernelError", "move", "compute", "np", "current", "logging"):
        assert not hasattr(module, strange), strange


@pytest.mark.parametrize(
    ("head", "line", "told"),
    [
        (FIRST, "nl.Path", "undocumented: nl.Path is not in the public documentation"),
        (FIRST, "nl.fori_loop(0, 4, None)", "nl.fori_loop is a name of nki, generation 2 of NKI; neuronxcc"),
        (FIRST, "nisa.topk()", "nisa.topk is a name of nki, generation 2"),
        (FIRST, "from neuronxcc.nki.language import Sequence", "undocumented: nl.Sequence is not in the pub"),
        (
            FIRST,
            "from neuronxcc.nki.kernels.attention import flash_fwd",
            "attention.flash_fwd: npuviz has none",
        ),
        (SECOND, "nl.arange(4)", "nl.arange is a name of neuronxcc.nki, generation 1 .*: take slices, nl.ds"),
        (
            SECOND,
            "from nki.language import arange",
            "nl.arange is a name of neuronxcc.nki, .*: take slices, nl.ds",
        ),
        (SECOND, "from nki.isa import *\n    tensor_copy(spec_in_use(), a)", "'spec_in_use' is not defined"),
        (SECOND, "nki.benchmark(a)", "nki.benchmark is a name of neuronxcc.nki, .*: run kernels by npuviz"),
        (SECOND, "nki.collectives.Tensor", "undocumented: nki.collectives.Tensor is not in the public"),
        (SECOND, "from nki.isa.constants import topk", "undocumented: nki.isa.constants.topk is not"),
    ],
)
def test_another_name_is_told_with_its_line(tmp_path, head, line, told) -> None:
    star = line.startswith("from nki.isa import *")
    if star:
        line = line.partition("\n")[2].strip()
        head += "from nki.isa import *\n"
    text = f"{head}\n@nki.jit\ndef kernel(a):\n    {line}\n    return a\n"
    with pytest.raises(Exception, match=rf"kernel\.py:{text.count(chr(10)) - 1}\D.*{told}"):
        loaded(tmp_path, text, {"a": random(8, 8)})


def test_names_of_the_documentation_come_by_a_star(tmp_path) -> None:
    text = f"""from pathlib import Path
{FIRST}
from neuronxcc.nki.language import *
from neuronxcc.nki.isa import *

@nki.jit
def kernel(a):
    i, j = arange(64)[:, None], arange(32)[None, :]
    out = ndarray((64, 32), dtype=a.dtype, buffer=shared_hbm)
    store(out[i, j], tensor_copy(load(a[i, j]), engine=vector_engine))
    assert Path("a/b").name == "b"
    return out
"""
    a = random(64, 32)
    assert (ran(tmp_path, text, {"a": a}) == a).all()


def test_grids_of_generation_1_run_in_generation_2_with_a_warning(tmp_path) -> None:
    text = f"""{SECOND}
@nki.jit
def kernel(a):
    out = nl.ndarray((64, 32), dtype=a.dtype, buffer=nl.shared_hbm)
    i, j = nl.mgrid[0:64, 0:40]
    nl.store(out[i, j], nl.load(a[i, j], mask=j < 32), mask=j < 32)
    return out
"""
    a = random(64, 32)
    spec, program = loaded(tmp_path, text, {"a": a})
    (found,) = outputs_of(spec, program)
    assert (found == a).all()
    line = text[: text.index("nl.mgrid")].count("\n") + 1
    told = [each.text for each in program.notes]
    assert any(f"kernel.py:{line}: nl.mgrid: generation 2 does not" in each for each in told)
    assert any(f"kernel.py:{line + 1}: nl.load: mask= is not supported since 0.2.0" in each for each in told)
