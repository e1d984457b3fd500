# Errors that NKI documents: each by its name, with the line that does it.
import sys

import numpy as np
import pytest

from npuviz.base.errors import NpuvizError
from npuviz.program.source import HasCalls
from npuviz.targets.neuroncore.nki.record import output_writes
from tests.targets.neuroncore.nki.running import FIRST, SECOND, loaded, ran, random

HEAD = FIRST + "import neuronxcc.nki.typing as nt\nimport neuronxcc.nki.compiler as ncc\n"
_I = "nl.arange(128)[:, None]"
_F = "nl.arange(64)[None, :]"
_PLACED = (
    "t = nl.ndarray((128, 64), dtype=a.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=0)); t[...] = nl.load(a)"
)
_ROWS = "i = nl.load(a[:, 0:1], dtype=np.int32)"
TABLE = [
    ("1d_arange_not_supported", f"nl.load(a[nl.arange(128), {_F}])"),
    ("activation_bias_invalid_type", f"{_ROWS}; nisa.activation(nl.exp, nl.load(a), bias=i)"),
    ("activation_scale_invalid_type", f"{_ROWS}; nisa.activation(nl.exp, nl.load(a), scale=i)"),
    ("activation_scale_scalar_or_vector", "t = nl.load(a); nisa.activation(nl.exp, t, scale=t)"),
    ("ambiguous_tensor_truth_value", "not nl.load(a)"),
    ("bias_tensor_must_be_specified_in_allocation", f"{_PLACED}; nisa.activation(nl.exp, t)"),
    ("cannot_assign_to_index", f"i = {_I}; i[0] = 3"),
    ("control_flow_condition_depending_on_arange", f"0 if {_I} < 4 else 1"),
    ("ambiguous_tensor_truth_value", "if nl.load(a): pass"),
    ("dynamic_control_flow_not_supported", "list(nl.load(a))"),
    ("size_of_dimension_exceed_arch_limit", "nisa.nc_matmul(nl.load(a), nl.zeros((128, 1024), a.dtype))"),
    ("failed_to_infer_tile_from_local_tensor", "nl.exp(nl.ndarray((4, nl.par_dim(128), 64), dtype=a.dtype))"),
    ("hbm_tensor_with_init_value_not_supported", "nl.zeros((128, 64), dtype=a.dtype, buffer=nl.hbm)"),
    ("indirect_indices_are_not_supported_with_nki_api", f"{_ROWS}; nl.load_transpose2d(a[i[{_I}, 0], {_F}])"),
    ("indirect_indices_free_dim", f"{_ROWS}; nl.load(a[{_I}, i[{_I}, 0]])"),
    ("num_partition_exceed_arch_limit", "nl.ndarray((256, 64), dtype=a.dtype)"),
    ("num_partition_mismatch", "nl.add(nl.load(a), nl.load(a[0:64]))"),
    ("store_dst_shape_smaller_than_other_shape", "t = nl.ndarray((128, 1), a.dtype); t[...] = nl.load(a)"),
    ("tensor_access_out_of_bound", f"nl.load(a[{_I}, nl.arange(65)[None, :]])"),
    (
        "tensor_creation_on_scratchpad_with_init_value_not_supported",
        "nl.zeros((128, 64), a.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=0))",
    ),
    ("tensor_output_not_written_to", "return nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)"),
    (
        "transpose_on_tensor_engine_not_allowed_in_allocated_kernel",
        f"{_PLACED}; nisa.nc_transpose(t, engine=nisa.tensor_engine)",
    ),
    ("annotation_shape_mismatch", "t: nt.tensor[128, 32] = nl.load(a)"),
    ("exceed_max_supported_dimension", "nl.transpose(nl.load(a).reshape((128, 8, 8)))"),
    (
        "copy_dynamic_indirect_indices_not_natively_supported",
        f"t = nl.load(a); i = nl.load(a[:, 0:1], dtype=np.int32); t[{_I}, i]",
    ),
    ("unsupported_expression_in_mask", f"i = {_I}; nl.load(a, mask=i * i < 4)"),
    ("unsupported_memory", "nl.exp(a)"),
    ("unsupported_mixing_basic_advanced_tensor_indexing", f"nl.load(a[{_I}, 0:4])"),
]


@pytest.mark.parametrize(("name", "line"), TABLE, ids=[name for name, _ in TABLE])
def test_the_error_is_named_with_its_line(tmp_path, name, line) -> None:
    text = HEAD + f"@nki.jit\ndef kernel(a):\n    {line}\n"
    with pytest.raises(NpuvizError) as caught:
        loaded(tmp_path, text, {}, **{"shape.a": "128x64"})
    assert str(caught.value).startswith(f"kernel.py:{len(text.splitlines())}: err_{name}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "line", "text"),
    [
        ("nki_api_outside_of_nki_kernel", 8, "nl.ndarray((128, 64), dtype=np.float32)\n"),
        (
            "while_loop_requires_unconditional_entry",
            11,
            "@nki.jit\ndef kernel(a):\n    c = nl.load(a)\n    while c:\n        pass\n",
        ),
        (
            "dynamic_control_flow_not_supported",
            10,
            "@nki.jit\ndef kernel(a):\n    if nl.load(a[0:1, 0:1]):\n        pass\n",
        ),
        (
            "local_variable_used_out_of_scope",
            12,
            "@nki.jit\ndef kernel(a):\n    for i in range(4):\n        t = nl.load(a)\n    nl.store(a, t)\n",
        ),
        (
            "local_variable_used_out_of_scope",
            13,
            "@nki.jit\ndef kernel(a):\n    t = nl.load(a)\n    for i in nl.sequential_range(4):\n"
            "        t = t + 1.0\n    nl.store(a, t)\n",
        ),
        (
            "local_variable_used_out_of_scope",
            13,
            "@nki.jit\ndef kernel(a):\n    tiles = []\n    for i in nl.affine_range(4):\n"
            "        tiles.append(nl.load(a))\n    nl.store(a, tiles[0])\n",
        ),
        (
            "nested_kernel_with_spmd_grid",
            14,
            "@nki.jit\ndef inner(a):\n    return a\n\n@nki.jit\ndef kernel(a):\n    inner[2](a)\n",
        ),
    ],
)
def test_the_error_is_named_with_its_line_in_longer_texts(tmp_path, name, line, text) -> None:
    with pytest.raises(NpuvizError, match=f"^kernel.py:{line}: err_{name}: "):
        loaded(tmp_path, HEAD + text, {}, **{"shape.a": "128x64", "kernel": "kernel"})


def test_what_newer_compilers_refuse_is_a_warning(tmp_path) -> None:
    body = "):\n    nl.store(a, nl.load(a))\n"
    for parameter, name in (
        ("a", "err_cannot_update_immutable_parameter"),
        ("a: nt.mutable_tensor", "err_mutable_parameter_not_returned"),
    ):
        text = HEAD + f"@nki.jit\ndef kernel({parameter}{body}"
        _, program = loaded(tmp_path, text, {}, **{"shape.a": "128x64"})
        assert [note.code for note in program.notes if note.text.startswith("err_")] == [name]
    text = HEAD + f"@nki.jit\ndef kernel(a: nt.mutable_tensor{body}    return a\n"
    _, program = loaded(tmp_path, text, {}, **{"shape.a": "128x64"})
    assert not [note for note in program.notes if note.text.startswith("err_")]


def test_a_tile_in_psum_is_filled_by_an_engine_that_writes_there(tmp_path) -> None:
    text = HEAD + (
        "@nki.jit\ndef kernel(a):\n"
        "    t = nl.ones((128, 64), dtype=np.float32, buffer=nl.psum)\n"
        "    nl.store(a, nl.copy(t))\n"
    )
    _, program = loaded(tmp_path, text, {}, **{"shape.a": "128x64"})
    assert any("memset" in program.listing.describe(n).opcode.lower() for n in range(len(program.listing)))


@pytest.mark.parametrize(
    "body",
    [
        "for i in nl.static_range(4):\n        t = nl.load(a)\n    nl.store(a, t)",
        "t = nl.ndarray(a.shape, a.dtype)\n    for i in range(4):\n        t[...] = nl.load(a)\n"
        "    nl.store(a, t)",
        "t = nl.ndarray((4, nl.par_dim(128), 64), a.dtype)\n    for i in nl.affine_range(4):\n"
        "        t[i] = nl.load(a)\n    for i in nl.affine_range(4):\n        nl.store(a, t[i])",
        "for i in nl.affine_range(4):\n        t = made(a)\n        nl.store(a, t)",
    ],
)
def test_tiles_that_are_used_where_they_are_made_are_no_error(tmp_path, body) -> None:
    helper = "def made(a):\n    for k in range(2):\n        t = nl.load(a)\n    return t\n\n"
    loaded(tmp_path, f"{HEAD}{helper}@nki.jit\ndef kernel(a):\n    {body}\n", {}, **{"shape.a": "128x64"})


def test_shared_memory_in_a_loop_is_a_warning(tmp_path) -> None:
    text = f"{HEAD}@nki.jit\ndef kernel(a):\n    for i in range(1):\n"
    text += "        b = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm, name='b')\n"
    text += "    nl.store(b, nl.load(a))\n    return b\n"
    _, program = loaded(tmp_path, text, {}, **{"shape.a": "128x64"})
    (found,) = [note.text for note in program.notes if "shared_hbm_must" in note.text]
    assert "kernel.py:11: b in nl.shared_hbm is made in a loop" in found


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("for i in nl.affine_range(4):\n        nl.store(b[0:64], nl.load(a[0:64]))", 64 * 64),
        (
            "for i in nl.affine_range(2):\n        nl.store(b[32 * i : 32 * i + 64], nl.load(a[0:64]))",
            32 * 64,
        ),
        ("for i in nl.sequential_range(4):\n        nl.store(b[0:64], nl.load(a[0:64]))", 0),
        ("for i in nl.affine_range(2):\n        nl.store(b[64 * i : 64 * i + 64], nl.load(a[0:64]))", 0),
        (
            "for i in nl.affine_range(2):\n        nl.store(b[64 * i : 64 * i + 64], value=0.0)\n"
            "    for i in nl.affine_range(2):\n        nl.store(b[64 - 64 * i :][:64], nl.load(a[:64]))",
            0,
        ),
    ],
)
def test_an_output_that_two_turns_write_is_a_warning(tmp_path, body, count) -> None:
    text = f"{HEAD}@nki.jit\ndef kernel(a):\n    b = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)\n"
    text += f"    {body}\n"
    _, program = loaded(tmp_path, f"{text}    return b\n", {}, **{"shape.a": "128x64"})
    found = [note.text for note in program.notes if "output_dependencies" in note.text]
    assert bool(found) == bool(count)
    assert all(f"kernel.py:12: b has {count} elements" in text and "(kernel.py:12)" in text for text in found)


def test_an_output_that_two_instances_write_is_a_warning(tmp_path) -> None:
    text = f"{HEAD}@nki.jit\ndef kernel(a):\n    b = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)\n"
    text += "    nl.store(b, nl.load(a))\n    return b\n"
    _, program = loaded(tmp_path, text, {}, **{"shape.a": "128x64", "grid": "2"})
    assert [note.code for note in program.notes if "dependencies" in note.text] == [
        "err_unexpected_output_dependencies"
    ]


def test_outputs_whose_double_writes_are_not_looked_at_are_told(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(output_writes, "MOST_ELEMENTS", 128 * 64 - 1)
    text = f"{HEAD}@nki.jit\ndef kernel(a):\n    b = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)\n"
    text += "    nl.store(b, nl.load(a))\n    return b\n"
    _, program = loaded(tmp_path, text, {}, **{"shape.a": "128x64"})
    (found,) = [note.text for note in program.notes if "not looked at" in note.text]
    assert found.startswith("b: 8192 elements")


def test_a_kernel_that_a_kernel_calls_is_inside_of_its_loops(tmp_path) -> None:
    text = f"{HEAD}@nki.jit\ndef twice(t):\n    out = nl.ndarray(t.shape, t.dtype)\n"
    text += "    for k in nl.affine_range(2):\n"
    text += "        out[64 * k : 64 * k + 64] = nl.copy(t[64 * k : 64 * k + 64])\n"
    text += "    return out\n\n@nki.jit\ndef kernel(a):\n    for i in nl.affine_range(2):\n"
    text += "        t = nl.load(a)\n        nl.store(a, twice(t))\n"
    _, program = loaded(tmp_path, text, {}, **{"shape.a": "128x64", "kernel": "kernel"})
    assert isinstance(program.listing, HasCalls)
    stacks = [program.listing.calls_of(n) for n in range(len(program.listing))]
    assert ["twice", "kernel"] in [[call.function for call in calls] for calls in stacks]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("x = a.ap([[64, 128], [1, 64]], offset=1)", "kernel.py:9: err_tensor_access_out_of_bound: "),
        ("x = a.ap([[-64, 128], [1, 64]])", "kernel.py:9: err_tensor_access_out_of_bound: "),
        ("x = a.ap([[64, 128, 2], [1, 64]])", "kernel.py:9: .*takes \\[\\[step, size\\], ...\\]"),
        ("x = a.ap([])", "kernel.py:9: .*takes \\[\\[step, size\\], ...\\]"),
        ("import pickle; pickle.dumps(a)", "kernel.py:9: .*cannot be pickled"),
    ],
)
def test_what_cannot_be_is_said_at_its_line(tmp_path, body: str, said: str) -> None:
    text = (
        SECOND
        + f"@nki.jit\ndef kernel(a):\n    out = nl.ndarray(a.shape, a.dtype, nl.shared_hbm)\n\n    {body}\n"
    )
    with pytest.raises(NpuvizError, match=f"^{said}"):
        loaded(tmp_path, text, {}, **{"shape.a": "128x64"})


def test_a_pattern_may_end_with_the_tensor_and_copies_of_a_view_are_the_view(tmp_path) -> None:
    text = (
        SECOND
        + """import copy
@nki.jit
def kernel(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    t = copy.deepcopy({"t": nl.ndarray((128, 32), dtype=a.dtype, buffer=nl.sbuf)})["t"]
    nisa.dma_copy(dst=t, src=a.ap([[64, 128], [2, 32]], offset=1))
    nisa.dma_copy(dst=out.ap([[64, 128], [1, 32]], offset=32), src=copy.copy(t))
    nisa.dma_copy(dst=out.ap([[64, 128], [1, 32]]), src=t)
    return out
"""
    )
    x = random(128, 64)
    assert (ran(tmp_path, text, {"a": x}) == np.concatenate([x[:, 1::2], x[:, 1::2]], axis=1)).all()


def test_streams_that_the_kernel_closes_stay_open(tmp_path, capsys) -> None:
    closing = "import sys\nprint('seen')\nsys.stdout.close()\nsys.stderr.close()\n"
    text = FIRST + closing + "@nki.jit\ndef kernel(a):\n    nl.exp(a)\n"
    with pytest.raises(NpuvizError, match=r"^kernel.py:12: err_unsupported_memory: "):
        loaded(tmp_path, text, {}, **{"shape.a": "128x64"})
    print("open", file=sys.stderr)
    assert capsys.readouterr().err == "seen\nopen\n"


def test_a_thread_that_a_kernel_leaves_behind_prints_to_stderr(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(sys, "left", None, raising=False)  # so that it is gone behind the test
    text = (
        SECOND
        + """
import sys, threading
go, printed = sys.left = threading.Event(), threading.Event()

def run():
    go.wait(60)
    print("noise")
    printed.set()

@nki.jit
def kernel(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    threading.Thread(target=run, daemon=True).start()
    nisa.dma_copy(dst=out, src=a)
    return out
"""
    )
    before = sys.stdout
    try:
        loaded(tmp_path, text, {}, **{"shape.a": "128x64"})
        go, printed = vars(sys)["left"]
        go.set()
        assert printed.wait(60)
        print("ours")
        assert capsys.readouterr() == ("ours\n", "noise\n")
    finally:
        sys.stdout = before


def test_a_missing_argument_is_said_with_the_place_of_the_kernel(tmp_path) -> None:
    with pytest.raises(NpuvizError, match=r"^kernel.py:6: the kernel kernel needs a: give "):
        loaded(tmp_path, FIRST + "@nki.jit\ndef kernel(a):\n    nl.load(a)\n", {})
