import pytest

from npuviz.base.names import abbreviations


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
