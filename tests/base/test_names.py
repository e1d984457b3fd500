import pytest

from npuviz.base.names import abbreviations, echo, fitting, is_number, named, natural_key, path_ends, resolved


@pytest.mark.parametrize(
    ("text", "shorter"),
    [
        ("waits for a semaphore", ["waits: semaphore", "waits: sem", "sem"]),
        ("waits for operand", ["waits: operand", "waits: ope", "ope"]),
        ("waits on the bus", ["waits: bus", "waits: bus", "bus"]),
        ("waiting for data", ["waits: data", "waits: data", "data"]),
        ("GEMM_PRELOAD", []),
        ("no tile", []),
    ],
)
def test_reasons_to_wait_are_abbreviated_by_rule(text: str, shorter: list[str]) -> None:
    assert abbreviations(text) == shorter


@pytest.mark.parametrize(
    ("text", "shorter"),
    [
        ("/model.0/conv/Conv", ["\u2026/conv/Conv", "\u2026/Conv"]),
        ("StatefulPartitionedCall/model/BiasAdd:0", ["\u2026/model/BiasAdd:0", "\u2026/BiasAdd:0"]),
        ("features/0/0/conv", ["\u2026/conv"]),
        (
            "encoder.layers.0.q_proj.weight",
            ["\u2026layers.0.q_proj.weight", "\u2026q_proj.weight", "\u2026weight"],
        ),
        ("nc_matmul  /a/b/c", ["nc_matmul  \u2026/b/c", "nc_matmul  \u2026/c"]),
        ("12.5 GB/s", []),
        ("a/b", []),
        ("1.2.3", []),
        ("4/5/6", []),
        ("Core[0].PE.pipeline", []),
        ("onnx::MatMul_123", []),
        ("", []),
        ("/", []),
        ("//", []),
        ("a//b/c", []),
    ],
)
def test_paths_are_abbreviated_to_their_last_parts(text: str, shorter: list[str]) -> None:
    assert path_ends(text) == shorter


@pytest.mark.parametrize(
    ("text", "length", "shown"),
    [
        ("/model.0/conv/Conv", 18, "/model.0/conv/Conv"),
        ("/model.0/conv/Conv", 17, "\u2026/conv/Conv"),
        ("/model.0/conv/Conv", 6, "\u2026/Conv"),
        ("/model.0/conv/MatMul", 6, "MatMu\u2026"),
        ("/model.0/conv/MatMul", 4, ""),
        ("GEMM_PRELOAD", 12, "GEMM_PRELOAD"),
        ("GEMM_PRELOAD", 7, "GEMM_P\u2026"),
        ("GEMM_PRELOAD", 4, ""),
        ("moving", 5, "movi\u2026"),
        ("moving", 4, ""),
        ("waits for a semaphore", 10, "waits: sem"),
        ("waits for a semaphore", 9, "sem"),
        ("waits for a semaphore", 2, ""),
    ],
)
def test_a_text_is_abbreviated_elided_at_its_end_or_vanishes(text: str, length: int, shown: str) -> None:
    assert fitting(text, lambda each: len(each) <= length, 4) == shown


def test_what_others_wrote_is_shown_short_and_without_control_characters() -> None:
    assert echo("conv1") == "conv1"
    assert echo("a\nb\x1b[31m") == "a\\nb\\x1b[31m"
    assert len(echo("x" * 4096)) == 80
    assert len(echo("\x1b" * 4096)) == 80
    assert echo("x" * 4096, 5) == "xx\u2026xx"


def test_numbers_of_any_length_have_an_order() -> None:
    long = "9" * 5000
    assert sorted(["x10", "x9", f"x{long}", "x007"], key=natural_key) == ["x007", "x9", "x10", f"x{long}"]


def test_numbers_that_int_takes() -> None:
    assert is_number("0123456789")
    assert not any(map(is_number, ("", "-1", "1_0", "\u00b2", "\u0663", "1 ", "9" * 19)))


def test_paths_that_no_file_can_have_are_none(tmp_path):
    (tmp_path / "self").symlink_to("self")
    for name in ("a\0b", "x" * 5000, "self"):
        assert resolved(tmp_path / name) is None
    assert resolved(tmp_path / "missing" / ".." / "b") == tmp_path.resolve() / "b"


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("Core[0].PE", "Core[0].PE"),
        ("SP", "Core[0].SP"),
        ("PE", None),
        ("E", None),
        ("Host", "Host"),
        ("in2", "PE(1,0).in2"),
        ("", None),
    ],
)
def test_the_end_of_a_name_stands_for_the_only_one_that_has_it(name: str, found: str | None) -> None:
    known = ["Core[0].PE", "Core[1].PE", "Core[0].SP", "Host", "Core[0].Host", "PE(1,0).in2"]
    assert named(name, known) == found
    assert named(name, iter(known)) == found
