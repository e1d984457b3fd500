# Kernels that are no plain functions of a module: in classes, of objects, as parts of functions, in packages.
import sys

import numpy as np
import pytest

from npuviz.targets.neuroncore.nki.record.errors import KernelError
from npuviz.targets.neuroncore.nki.user_python import imported, stand_ins
from tests.targets.neuroncore.nki.running import FIRST, loaded, ran, random


@pytest.mark.parametrize(
    ("text", "kernel"),
    [
        ("class Operators:\n    @staticmethod\n    @nki.jit\n    def twice(x):\nBODY\n", ""),
        (
            "class Operators:\n    @staticmethod\n    @nki.jit\n    def twice(x):\nBODY\n\n    @nki.jit\n"
            "    def other(self, x):\n        return x\n",
            "Operators.twice",
        ),
        (
            "import functools\n\ndef scaled(x, factor):\n"
            "    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)\n"
            "    nl.store(out, nl.load(x) * factor)\n    return out\n\n"
            "twice = nki.jit(functools.partial(scaled, factor=2))\n",
            "",
        ),
        ("twice = nki.jit(lambda x: nl.load(x) * 2)\n", ""),
    ],
)
def test_kernels_are_found_in_classes_and_as_parts_of_functions(tmp_path, text, kernel) -> None:
    body = "        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)\n"
    body += "        for i in range(2):\n"
    body += "            nl.store(out[i * 4 : i * 4 + 4], nl.load(x[i * 4 : i * 4 + 4]) * 2)\n"
    x = random(8, 4)
    chosen = {"kernel": kernel} if kernel else {}
    found = ran(tmp_path, FIRST + text.replace("BODY", body + "        return out"), {"x": x}, **chosen)
    assert np.array_equal(found, 2 * x)


def test_methods_are_kernels_of_their_objects(tmp_path) -> None:
    path = tmp_path / "kernel.py"
    path.write_text(
        FIRST + "class Scale:\n    def __init__(self, by):\n        self.by = by\n\n"
        "    @nki.jit\n    def run(self, x):\n"
        "        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)\n"
        "        nl.store(out, nl.load(x) * self.by)\n"
        "        return out\n"
    )
    x = random(8, 4)
    with stand_ins():
        module = imported(path)
        two, three = module.Scale(2.0), module.Scale(3.0)
        assert np.array_equal(two.run(x), 2 * x)
        assert np.array_equal(module.nki.simulate_kernel(three.run, x), 3 * x)
        assert np.array_equal(two.run[1](x), 2 * x)


def test_a_kernel_in_a_package_imports_by_relative_names(tmp_path) -> None:
    inner = tmp_path / "mine" / "kernels"
    inner.mkdir(parents=True)
    (tmp_path / "mine" / "__init__.py").write_text("")
    (inner / "__init__.py").write_text("from .other import one\n")
    (inner / "other.py").write_text("one = 1.0\n")
    (tmp_path / "mine" / "helpers.py").write_text("def twice(tile):\n    return tile * 2\n")
    text = (
        FIRST + "from ..helpers import twice\nfrom . import one\n\n@nki.jit\ndef kernel(x):\n"
        "    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)\n"
        "    nl.store(out, twice(nl.load(x)) + one)\n"
        "    return out\n"
    )
    x = random(8, 4)
    before = set(sys.modules)
    assert np.array_equal(ran(inner, text, {"x": x}), 2 * x + 1)
    assert not [name for name in set(sys.modules) - before if name.startswith("mine")]
    with pytest.raises(KernelError, match=r"kernel.py:6: ModuleNotFoundError: .*mine.absent"):
        loaded(inner, text.replace("..helpers", "..absent"), {"x": x})


@pytest.mark.parametrize("helpers", [".helpers", "mine.helpers"])
def test_a_kernel_runs_as_a_part_of_the_package_that_imports_it(tmp_path, helpers) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "__init__.py").write_text("from .kernel import kernel\n")
    (folder / "helpers.py").write_text("def twice(tile):\n    return tile * 2\n")
    text = (
        FIRST + f"from {helpers} import twice\n\n@nki.jit\ndef kernel(x):\n"
        "    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)\n"
        "    nl.store(out, twice(nl.load(x)))\n"
        "    return out\n"
    )
    x = random(8, 4)
    assert np.array_equal(ran(folder, text, {"x": x}), 2 * x)
    assert not [name for name in sys.modules if name.split(".")[0] == "mine"]
