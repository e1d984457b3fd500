"""Every input that once showed a fault is read, or refused with one line."""

from pathlib import Path

import pytest

from tests.fuzz.replay import kept_inputs, replay

INPUTS = kept_inputs()


@pytest.fixture(scope="module")
def outcomes() -> dict[Path, tuple[str, str]]:
    return replay(INPUTS)


@pytest.mark.parametrize("path", [path for _, path in INPUTS], ids=[f"{f}-{p.name}" for f, p in INPUTS])
def test_kept(path: Path, outcomes: dict[Path, tuple[str, str]]) -> None:
    kind, text = outcomes[path]
    assert kind in ("taken", "error"), f"{kind}: {text}"
