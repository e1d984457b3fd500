# Members of enumerations and memories of generation 2: what 0.2 wrote otherwise runs with a warning, all
# else is an error. Views that leave their tensor, and modes of DMAs that need another one.
import re

import pytest

from npuviz.base.errors import NpuvizError
from npuviz.targets.neuroncore.nki.record.errors import REFUSED
from tests.targets.neuroncore.nki.running import SECOND, loaded, outputs_of, random

HEAD = (
    SECOND
    + """
import neuronxcc.nki.isa as first

@nki.jit
def kernel(a):
    t = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    out = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=t, src=a)
"""
)
TAIL = "    nisa.dma_copy(dst=out, src=t)\n    return out\n"
LINE = HEAD.count("\n") + 1


def program(folder, line):
    return loaded(folder, f"{HEAD}    {line}\n{TAIL}", {"a": random(128, 64)}, preset="trn2")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("nl.ndarray((128, 64), nl.float32, 'psum')", "nl.ndarray: buffer='psum' .*; write buffer=nl.psum"),
        ("nl.zeros((128, 1), nl.float32, buffer='sbuf')", "nl.zeros: buffer='sbuf' is refused since 0.3.0"),
        ("nisa.tensor_copy(t, t, engine=5)", "tensor_copy: engine=5 .*; write nisa.engine.vector"),
        ("nisa.dma_copy(dst=out, src=t, dge_mode=2)", "dge_mode=2 .*; write nisa.dge_mode.hwdge"),
        ("nisa.dma_copy(dst=out, src=t, oob_mode=0)", "oob_mode=0 .*; write nisa.oob_mode.error"),
        (
            "nisa.dma_copy(dst=out, src=t, oob_mode=nisa.oob_mode.skip)",
            "dma_copy: oob_mode.skip, and none of",
        ),
        ("nisa.activation(t, nl.exp, t, reduce_cmd=0)", "reduce_cmd=0 .*; write nisa.reduce_cmd.idle"),
        ("nisa.tensor_copy_dynamic_src(t, t)", "tensor_copy_dynamic_src: removed in 0.4.0; nisa.tensor_copy"),
    ],
)
def test_what_an_older_release_took_runs_and_is_told(tmp_path, line, told) -> None:
    spec, found = program(tmp_path, line)
    outputs_of(spec, found)
    (note,) = [each.text for each in found.notes if REFUSED in each.text]
    assert re.search(rf"kernel\.py:{LINE}: .*{told}", note), note


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("nl.ndarray((128, 64), nl.float32, buffer='dram')", "nl.ndarray: buffer='dram' is none of nl.sbuf"),
        ("nl.ndarray((128, 64), nl.float32, buffer=1)", "buffer=1 is none of nl.sbuf, nl.psum"),
        ("nisa.tensor_copy(t, t, engine=9)", "engine=9 is no member of nisa.engine: unknown, tensor"),
        ("nisa.tensor_copy(t, t, engine='vector')", "engine='vector' is no member of nisa.engine"),
        ("nisa.tensor_copy(t, t, engine=True)", "engine=True is no member of nisa.engine"),
        (
            "nisa.tensor_copy(t, t, engine=nisa.dge_mode.hwdge)",
            "engine=dge_mode.hwdge is no member of nisa.eng",
        ),
        (
            "nisa.dma_copy(dst=out, src=t, dge_mode=first.dge_mode.swdge)",
            "dge_mode=neuronxcc.nki.isa.dge_mode.swdge is no member of nisa.dge_mode: unknown, swdge",
        ),
        (
            "nisa.dma_copy(dst=out, src=t, engine=nisa.engine.scalar)",
            "engine=scalar with dge_mode.unknown: give dge_mode=nisa.dge_mode.hwdge",
        ),
        (
            "nisa.dma_transpose(out[0:64, 0:32], t[0:32, :], oob_mode=nisa.oob_mode.skip)",
            "dma_transpose: oob_mode.skip, and none of src has an index: take .ap",
        ),
        (
            "nisa.dma_compute(out, [out, out], nl.add, oob_mode=nisa.oob_mode.skip)",
            "dma_compute: oob_mode.skip, and none of dst or srcs has an index",
        ),
    ],
)
def test_what_no_release_takes_is_an_error(tmp_path, line, told) -> None:
    with pytest.raises(NpuvizError, match=rf"kernel\.py:{LINE}: NkiValidationError: .*{told}"):
        program(tmp_path, line)


@pytest.mark.parametrize("line", ["t[0:128, 32:65]", "t[0:129, :]", "a[200, :]", "t.slice(1, 60, 70)"])
def test_a_view_beyond_its_tensor_is_an_error_where_it_is_made(tmp_path, line) -> None:
    with pytest.raises(NpuvizError, match=rf"kernel\.py:{LINE}: err_tensor_access_out_of_bound: index \d+"):
        program(tmp_path, f"unused = {line}")


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("[[64, 128], [1, 65]]", "elements 0 to 64 of 64 in partitions 0 to 127 of 128"),
        ("[[64, 64], [-1, 8]], offset=66", "elements -5 to 2 of 64 in partitions 1 to 64 of 128"),
        ("[[64, 64], [1, 8]], offset=65 * 64", "elements 0 to 7 of 64 in partitions 65 to 128 of 128"),
    ],
)
def test_a_pattern_beyond_its_tile_is_an_error_where_it_is_used(tmp_path, pattern, told) -> None:
    _, found = program(tmp_path, f"unused = t.ap({pattern})")
    assert any(told in note.text for note in found.notes)
    with pytest.raises(NpuvizError, match=rf"kernel\.py:{LINE}: err_tensor_access_out_of_bound: index -?\d+"):
        program(tmp_path, f"unused = t.ap({pattern}); nisa.memset(unused, 0.0)")


def test_a_transpose_may_skip_what_a_register_names(tmp_path) -> None:
    line = (
        "reg = nisa.register_alloc(0); nisa.dma_transpose(out[0:64, 0:32], a.ap([[64, 32], [1, 64]], "
        "scalar_offset=reg), oob_mode=nisa.oob_mode.skip)"
    )
    program(tmp_path, line)
