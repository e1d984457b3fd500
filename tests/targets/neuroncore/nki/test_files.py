# Kernel files: choosing a kernel, its arguments, and one line about what is wrong with them.
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npuviz.base.errors import FormatError, NpuvizError, UsageError
from npuviz.targets.neuroncore.nki import user_python
from npuviz.targets.neuroncore.nki.command import environment, run
from npuviz.targets.neuroncore.nki.record.errors import KernelError
from npuviz.targets.neuroncore.nki.sniffing import described, imports_nki
from npuviz.targets.neuroncore.target import TARGET
from npuviz.workbench.headless.info import describe_file, info_text
from npuviz.workbench.opening import OpenOptions
from tests.targets.neuroncore.nki.running import FIRST, SECOND, loaded, outputs_of, ran, random

TWO = (
    SECOND
    + """
@nki.jit
def one(a):
    return a

@nki.jit
def other(a, factor=2.0):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
    nisa.dma_copy(dst=out, src=tile)
    return out
"""
)


def test_a_kernel_is_chosen_and_gets_its_arguments(tmp_path) -> None:
    settings = {"kernel": "other", "shape.a": "8x4:bfloat16", "factor": "3.5"}
    _, program = loaded(tmp_path, TWO, {}, **settings)
    (tensor,) = (program.graph.tensors[index] for index in program.graph.inputs)
    assert (tensor.name, tensor.shape, tensor.dtype) == ("a", (8, 4), "bfloat16")
    assert "3.5" in " ".join(program.listing.describe(n).text for n in range(len(program.listing)))


@pytest.mark.parametrize(
    ("text", "settings", "message"),
    [
        (TWO, {}, "several kernels: choose one with --kernel: one, other"),
        (TWO, {"kernel": "third"}, "--kernel third"),
        (TWO, {"kernel": "other"}, "needs a: give --input NAME=FILE.npy or, for example, --shape a="),
        (
            TWO.replace(
                "factor=2.0):\n", 'factor=2.0):\n    """factor * a: a [rows, columns].\n\n    More."""\n'
            ),
            {"kernel": "other"},
            r"it is described as: factor \* a: a \[rows, columns\]\.$",
        ),
        (TWO, {"kernel": "other", "shape.b": "4"}, "--shape b: the kernel's parameters are a, factor"),
        (TWO, {"kernel": "other", "shape.a": "4x?"}, r"--shape a=4x\?: expected sizes"),
        (TWO, {"kernel": "other", "shape.a": "4x4", "nothing": "1"}, "--set nothing: unknown key"),
        ("import nki\ndef f(:\n", {}, "kernel.py:2: "),
        ("import nki\nimport no_such_module\n", {}, "kernel.py:2: ModuleNotFoundError"),
        ("import nki\n", {}, "no function under nki.jit"),
        (
            "from neuronxcc.nki._private.private_api import do_while\n",
            {},
            r"undocumented: neuronxcc.nki._private.private_api.do_while is",
        ),
        ("import neuronxcc.nki.compiler.backends\n", {}, "kernel.py:1: .*backends is not in the public docu"),
        (
            "import nki\nimport torch_that_is_not_there\n",
            {},
            "npuviz needs no torch_that_is_not_there:",
        ),
        ("import nki, sys\nsys.exit(3)\n", {}, "kernel.py:2: SystemExit: 3; .*__main__"),
        ("import nki\nclass E(BaseException): pass\nraise E(5)\n", {}, "kernel.py:3: E: 5"),
        (
            "import nki\nclass E(Exception):\n    __str__ = 0\nraise E\n",
            {},
            "py:4: E: its text cannot",
        ),
        ("import nki\nraise ValueError('one\\ntwo')\n", {}, "kernel.py:2: ValueError: one two"),
        ("import nki\nf = nki.jit(3)\n", {}, "kernel.py:2: nki.jit of 3: a kernel is a function"),
        (TWO, {"kernel": "one", "shape.a": "0x4"}, "--shape a=0x4: a size is at least 1"),
        (TWO, {"kernel": "one", "shape.a": "128x99999999999"}, "an argument has at most 68.7"),
        (TWO, {"kernel": "one", "shape.a": "9" * 5000}, "expected sizes and a type"),
        (
            TWO,
            {"kernel": "one", "shape.a": "8x4:floaty"},
            "--shape a=8x4:floaty: .*; known: float32,",
        ),
        (TWO, {"kernel": "one", "shape.a": "8x4", "grid": "0"}, "--grid 0: expected numbers of at least 1"),
        (
            SECOND + "class C: pass\n",
            {"kernel": "C"},
            "--kernel C: kernel.py has no kernel; its functions",
        ),
        (
            SECOND + "@nki.jit\ndef f(a):\n    return nl.ndarray((8, 4), nl.float32, buffer=nl.shared_hbm)\n",
            {"shape.a": "8x4"},
            "kernel.py:7: err_tensor_output_not_written_to: .* nothing was stored to it",
        ),
        (
            SECOND + "@nki.jit\ndef f(a):\n    pass\n",
            {"shape.a": "8x4"},
            "kernel.py:5: err_tensor_output_not_written_to: the kernel f returns no tensor and",
        ),
        (
            SECOND + "@nki.jit\ndef f(a):\n    yield a\n",
            {"shape.a": "8x4"},
            "kernel.py:5: nki.jit of f: a kernel is a plain function, not a generator",
        ),
        (
            SECOND + "@nki.jit\nasync def f(a):\n    return a\n",
            {"shape.a": "8x4"},
            "kernel.py:5: nki.jit of f: a kernel is a plain function, not an async function",
        ),
        (
            SECOND + "async def f(a):\n    return a\n",
            {"kernel": "f", "shape.a": "8x4"},
            "kernel.py:5: nki.jit of f: a kernel is a plain function, not an async function",
        ),
        (
            SECOND + "@nki.jit\ndef f(*tensors):\n    return tensors[0]\n",
            {"shape.tensors": "8x4"},
            r"--shape tensors: \*tensors stands for any number of arguments; ",
        ),
        (
            SECOND + "@nki.jit\ndef f(a, **more):\n    return a\n",
            {"shape.a": "8x4", "more": "3"},
            r"--set more: \*\*more stands for any number of arguments; ",
        ),
        ("import nki, os\nos._exit(3)\n", {}, "kernel.py:2: SystemExit: 3; .*__main__"),
        ("import nki, os\nos.abort()\n", {}, "kernel.py:2: SystemExit: abort; .*__main__"),
        (
            SECOND + "@nki.jit\ndef f():\n    nl.ndarray((-8, 4), nl.float32, buffer=nl.shared_hbm)\n",
            {},
            r"kernel.py:7: tensor .*float32\[-8, 4\] has a negative size",
        ),
        (
            SECOND + "@nki.jit\ndef f():\n    nl.ndarray((2**40, 9), nl.float32, buffer=nl.shared_hbm)\n",
            {},
            r"kernel.py:7: tensor .*: 39582418599936 bytes, the core's memory has ",
        ),
        (
            SECOND + "import numpy as np\n@nki.jit\ndef f(a):\n    np.exp(nl.load(a))\n",
            {"shape.a": "8x4"},
            "kernel.py:8: TypeError: .*functions of numpy do not take tiles: use those of nl",
        ),
        (SECOND + "@nki.jit\ndef f():\n    return 1 / 0\n", {}, "kernel.py:7: ZeroDivisionError"),
        (
            SECOND + "@nki.jit\ndef f():\n    return nl.no_such_name\n",
            {},
            "kernel.py:7: undocumented: nl.no_such_name",
        ),
        (SECOND + "@nki.jit\ndef f(a):\n    return nl.add(a, 1)\n", {"shape.a": "4x4"}, "lies in HBM"),
        (
            SECOND + "@nki.jit\ndef f(a):\n    return nl.ndarray((129, 4), dtype=nl.float32)\n",
            {"shape.a": "4x4"},
            r"kernel.py:7: err_num_partition_exceed_arch_limit: .* 129 ",
        ),
        (
            FIRST + "@nki.jit\ndef f(a):\n    nl.load(a[nl.arange(9)[:, None], nl.arange(4)[None, :]])\n",
            {"shape.a": "8x4"},
            "kernel.py:8: err_tensor_access_out_of_bound: index 8 of a",
        ),
        (
            FIRST + "@nki.jit\ndef f(a):\n    nisa.max8(src=nl.load(a), maks=nl.arange(8)[:, None] < 4)\n",
            {"shape.a": "8x16"},
            "kernel.py:8: nisa.max8 has no parameter 'maks'; it has dtype, mask, src",
        ),
        (
            FIRST
            + "@nki.jit\ndef f(a):\n    m = nl.arange(8)[:, None] < 4\n"
            + "    nl.load(a, mask=m) if m and m else 0\n",
            {"shape.a": "8x16"},
            "kernel.py:9: err_control_flow_condition_depending_on_arange",
        ),
        (
            SECOND
            + "@nki.jit\ndef f(a):\n    t = nl.ndarray((8, 4), nl.float32)\n"
            + "    nisa.tensor_scalar_reduce(t, t, nl.add, 1.0, nl.subtract)\n",
            {"shape.a": "8x4"},
            "kernel.py:8: NkiValidationError: tensor_scalar_reduce: reduce_op subtract must be add, ",
        ),
        (
            FIRST + "@nki.jit\ndef f(a):\n    if nl.load(a):\n        pass\n",
            {"shape.a": "8x4"},
            "kernel.py:8: err_ambiguous_tensor_truth_value",
        ),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path, text, settings, message) -> None:
    with pytest.raises(NpuvizError, match=message) as caught:
        loaded(tmp_path, text, {}, **settings)
    assert "\n" not in str(caught.value)


def test_arrays_that_do_not_fit_are_refused(tmp_path) -> None:
    for array, settings, message in (
        (random(4, 4), {"shape.a": "8x4"}, r"--shape a=8x4: the array of --input a has shape \[4, 4\]"),
        (np.zeros((4, 4), complex), {}, "--input a: element type complex128"),
        (np.array([["x"]]), {}, "--input a: element type <U1"),
    ):
        with pytest.raises(UsageError, match=message):
            loaded(tmp_path, TWO, {"a": array}, kernel="one", **settings)


def test_a_shape_beside_an_array_gives_its_type(tmp_path) -> None:
    settings = {"kernel": "one", "shape.a": "4x4:bfloat16"}
    _, program = loaded(tmp_path, TWO, {"a": random(4, 4)}, **settings)
    assert program.graph.tensors[0].dtype == "bfloat16"


def warmed_up(tmp_path, imports: str) -> None:
    """Import what a kernel file imports, so that its time is not counted."""
    with pytest.raises(FormatError):  # there is no kernel
        loaded(tmp_path, imports, {})


def test_python_without_an_end_is_stopped(tmp_path, monkeypatch) -> None:
    warmed_up(tmp_path, SECOND)
    monkeypatch.setattr(user_python, "MAX_SECONDS", 0.3)
    with pytest.raises(UsageError, match=r"ran for 0\.3 seconds without an end, at kernel.py:[78];"):
        loaded(tmp_path, SECOND + "@nki.jit\ndef f():\n    while True:\n        pass\n", {})


def test_a_deep_recursion_is_told_without_a_look_at_every_call(tmp_path, monkeypatch) -> None:
    path = tmp_path / "kernel.py"
    path.write_text("def again():\n    again()\n")
    names: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    looked: list[Path] = []
    resolve = Path.resolve
    with pytest.raises(RecursionError) as caught:
        names["again"]()
    monkeypatch.setattr(Path, "resolve", lambda self: looked.append(self) or resolve(self))
    told = user_python.user_error(caught.value, path)
    assert str(told).startswith("kernel.py:2: RecursionError")
    assert len(looked) < 10


def test_a_loop_in_a_library_is_named_by_the_kernels_own_line(tmp_path, monkeypatch) -> None:
    imports = "import nki, itertools, statistics\n"
    warmed_up(tmp_path, imports)
    monkeypatch.setattr(user_python, "MAX_SECONDS", 0.5)
    with pytest.raises(UsageError, match=r"without an end, at kernel.py:2;"):
        loaded(tmp_path, imports + "statistics.mean(itertools.count())\n", {})


def test_arguments_by_position_only_and_by_name_only(tmp_path) -> None:
    text = (
        FIRST
        + """
@nki.jit
def f(a, factor=2.0, /, *, plus=1.0):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(a) * factor + plus)
    return out
"""
    )
    a = random(8, 4)
    np.testing.assert_allclose(ran(tmp_path, text, {"a": a}, plus="5.0"), a * 2 + 5, rtol=1e-6)
    np.testing.assert_allclose(ran(tmp_path, text, {"a": a}, factor="3.0"), a * 3 + 1, rtol=1e-6)


def test_a_kernel_under_further_decorators_is_found(tmp_path) -> None:
    text = (
        FIRST
        + """
import functools

def tripled(function):
    @functools.wraps(function)
    def inner(a, factor):
        return function(a, factor * 3)
    return inner

def same(function):
    return functools.wraps(function)(lambda *args: function(*args))

@same
@tripled
@nki.jit
def f(a, factor):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(a) * factor)
    return out
"""
    )
    a = random(8, 4)
    np.testing.assert_allclose(ran(tmp_path, text, {"a": a}, factor="2.0"), a * 6, rtol=1e-6)


def test_nothing_of_a_kernels_imports_stays(tmp_path) -> None:
    (tmp_path / "helper_of_kernel.py").write_text("SCALE = 2.0\n")
    text = "from helper_of_kernel import SCALE\n" + TWO.replace("factor=2.0", "factor=SCALE")
    loaded(tmp_path, text, {}, **{"kernel": "other", "shape.a": "4x4"})
    assert not {"nki", "neuronxcc", "helper_of_kernel"} & set(sys.modules)
    assert not any("shims" in each for each in sys.path)


def test_a_file_is_known_by_its_imports_and_asks_for_consent(tmp_path) -> None:
    path = tmp_path / "kernel.py"
    path.write_text(TWO)
    assert imports_nki(path)
    assert TARGET.accepts(path, path.read_bytes()[:512])
    assert TARGET.scripts(path) == (path,)
    assert [each.name for each in described(path)] == ["one", "other"]
    path.write_text("import numpy\n# import nki\n")
    assert not imports_nki(path)


SCRIPT = (
    FIRST
    + """
@nki.jit(mode="simulation")
def double(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x) * 2.0)
    return out

@nki.benchmark(warmup=1, iters=2)
@nki.jit
def measured(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    return out

def in_place(x, out):
    nl.store(out, nl.load(x) + 1.0)

x = np.arange(32, dtype=np.float32).reshape(8, 4)
assert (double(x) == 2 * x).all()
out = np.zeros_like(x)
nki.simulate_kernel(in_place, x, out)
assert (out == x + 1).all()
from neuronxcc.nki.typing import tensor
measured(tensor[[128, 64], nl.bfloat16])
print(measured.benchmark_result.nc_latency.get_latency_percentile(50) > 0)
measured(x)
print(measured.benchmark_result.nc_latency.get_latency_percentile(50) > 0)
"""
)


def test_peoples_own_scripts_run_unmodified(tmp_path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(script)], env=environment(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.split()) == (0, ["True", "True"]), done.stderr


HAZARDOUS = f"""{FIRST}
@nki.jit
def half(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray((nl.par_dim(128), 64), dtype=x.dtype, buffer=nl.sbuf)
    t[:, 0:32] = nl.load(x[:, 0:32])
    nl.store(out, nl.exp(t))
    return out

nki.simulate_kernel(half, np.ones((128, 64), np.float32))
"""


def test_scripts_are_warned_of_hazards(tmp_path) -> None:
    script = tmp_path / "script.py"
    script.write_text(HAZARDOUS)
    done = subprocess.run(
        [sys.executable, str(script)], env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "hazard: script.py:12: " in done.stderr
    assert "reads memory that nobody wrote" in done.stderr


def test_a_test_of_a_kernel_chooses_whether_hazards_fail_it(tmp_path) -> None:
    lines = HAZARDOUS.strip().splitlines()
    filters = {
        "all_warnings": [],
        "all_but_those_of_kernels": ["default::npuviz.testing.KernelWarning"],
        "hazards": ["default", "error::npuviz.testing.HazardWarning"],
    }
    for name, chosen in filters.items():
        marks = [f"@pytest.mark.filterwarnings({each!r})" for each in reversed(chosen)]
        test = ["import pytest", *lines[:-1], *marks, f"def test_{name}():", f"    {lines[-1]}"]
        (tmp_path / f"test_{name}.py").write_text("\n".join(test) + "\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", "-W", "error", str(tmp_path)],
        env=environment(), capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    ends = {
        name: line.split()[0]
        for line in done.stdout.splitlines()
        for name in filters
        if f"::test_{name}" in line
    }
    assert ends == {"all_warnings": "FAILED", "all_but_those_of_kernels": "PASSED", "hazards": "FAILED"}, (
        done.stdout + done.stderr
    )
    for name in filters:
        assert f"HazardWarning: hazard: test_{name}.py:" in done.stdout


def test_an_instruction_that_the_chip_cannot_execute_is_no_result(tmp_path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        SECOND
        + """
import numpy as np

@nki.jit
def spread(x, source):
    out = nl.ndarray((4, x.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
    row = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    rows = nl.ndarray((4, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=row, src=x)
    nisa.nc_stream_shuffle(dst=rows, src=row, shuffle_mask=[source] * 32)
    nisa.dma_copy(dst=out, src=rows)
    return out

x = np.arange(8, dtype=np.float32)[None]
assert (nki.simulate(spread)(x, 0) == x).all()
try:
    nki.simulate(spread)(x, 5)
except Exception as error:
    print(error)
"""
    )
    done = subprocess.run(
        [sys.executable, str(script)], env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "shuffle mask 5 of partition 0 is outside its quadrant" in done.stdout


def test_the_stand_ins_are_written_to_a_folder_but_never_over_another_package(tmp_path, capsys) -> None:
    assert run("shims", [str(tmp_path / "shims")]) == 0
    assert run("shims", [str(tmp_path / "shims")]) == 0
    assert f"export PYTHONPATH={(tmp_path / 'shims').resolve()}" in capsys.readouterr().out
    (tmp_path / "real" / "neuronxcc").mkdir(parents=True)
    (tmp_path / "real" / "neuronxcc" / "__init__.py").write_text("version = 1\n")
    with pytest.raises(UsageError, match="not from npuviz"):
        run("shims", [str(tmp_path / "real")])
    assert not (tmp_path / "real" / "nki").exists()


def test_inputs_of_other_types_are_taken_narrower_and_said_so(tmp_path) -> None:
    text = SECOND + "@nki.jit\ndef f(a):\n    return a\n"
    _, program = loaded(tmp_path, text, {"a": random(4, 4).astype(np.float64)})
    assert any("float64 is taken as float32" in note.text for note in program.notes)


def test_packages_for_a_files_own_tests_need_not_be_installed(tmp_path) -> None:
    text = (
        SECOND
        + """
import torch
from torch_xla.core import xla_model as xm

@nki.jit
def kernel(x: torch.Tensor):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    USE
    nl.store(out, tile)
    return out

def test():
    kernel(torch.ones(2).to(xm.xla_device()))
"""
    )
    x = random(8, 8)
    assert np.array_equal(ran(tmp_path, text.replace("USE", ""), {"x": x}), x)
    with pytest.raises(
        KernelError, match=r"kernel.py:13: ImportError: torch.zeros is used, and torch is not"
    ):
        ran(tmp_path, text.replace("USE", "torch.zeros(2)"), {"x": x})
    assert "torch" not in sys.modules


def test_a_file_may_wrap_its_kernels_for_a_framework_that_is_not_installed(tmp_path) -> None:
    text = (
        FIRST
        + """
from torch_neuronx import nki_jit
from vllm.kernels import register

@nki_jit
def kernel(x, out):
    nl.store(out, nl.add(nl.load(x), 1.0))

registered = register(kernel, name="kernel")[2]
"""
    )
    x = random(8, 8)
    spec, program = loaded(tmp_path, text, {"x": x, "out": np.zeros_like(x)})
    assert np.array_equal(outputs_of(spec, program)[0], x + 1)
    for use in ("if registered: x = 1", "for x in registered: pass", "kernel(register(), registered)"):
        with pytest.raises(KernelError, match=r"ImportError: vllm.kernels.register.* and vllm is not"):
            loaded(tmp_path, text + use, {"x": x, "out": x})


def test_a_setting_with_the_name_of_a_parameter_is_the_parameter(tmp_path) -> None:
    text = TWO.replace("factor", "limit")
    spec, program = loaded(tmp_path, text, {}, kernel="other", limit="3.5", **{"shape.a": "8x4"})
    assert "3.5" in " ".join(program.listing.describe(n).text for n in range(len(program.listing)))
    assert spec.limit != 3.5
    with pytest.raises(UsageError, match="nothing: unknown key"):
        loaded(tmp_path, text, {}, kernel="other", nothing="3", **{"shape.a": "8x4"})


def test_what_is_known_of_a_kernel_file_without_running_it(tmp_path) -> None:
    path = tmp_path / "kernel.py"
    path.write_text(TWO, encoding="utf-8")
    found = describe_file(path, OpenOptions())
    assert (found["kind"], found["files"]) == ("NKI kernels", ["kernel.py"])
    assert info_text(found).startswith("kernel.py  (NKI kernels of neuroncore)")
