import pytest

from npuviz.base.names import abbreviations, echo


@pytest.mark.parametrize(
    ("text", "shorter"),
    [
        ("waits for a semaphore", ["waits: semaphore", "waits: sem"]),
        ("waits for operand", ["waits: operand", "waits: ope"]),
        ("waits on the bus", ["waits: bus", "waits: bus"]),
        ("GEMM_PRELOAD", []),
        ("no tile", []),
    ],
)
def test_reasons_to_wait_are_abbreviated_by_rule(text: str, shorter: list[str]) -> None:
    assert abbreviations(text) == shorter


def test_what_others_wrote_is_shown_short_and_without_control_characters() -> None:
    assert echo("conv1") == "conv1"
    assert echo("a\nb\x1b[31m") == "a\\nb\\x1b[31m"
    assert len(echo("x" * 4096)) == 80
    assert len(echo("\x1b" * 4096)) == 80
    assert echo("x" * 4096, 5) == "xx\u2026xx"
