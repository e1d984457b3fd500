"""Trying inputs again, each in a process that may hang or crash."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz.family import CORPUS, FAMILIES
from tests.fuzz.keeper import Keeper, scratch_folder, watch
from tests.fuzz.worker import Orders


def kept_inputs(corpus: Path = CORPUS) -> list[tuple[str, Path]]:
    """(family, file) of everything that was found."""
    return [(path.parent.name, path) for path in sorted(corpus.glob("*/*"))]


def replay(
    inputs: Sequence[tuple[str, Path]], seconds: float = 10.0, package: str = FAMILIES
) -> dict[Path, tuple[str, str]]:
    """File -> (kind, text) of what came of it."""
    families = sorted({family for family, _ in inputs})
    with tempfile.TemporaryDirectory(prefix="npuviz-replay-", dir=scratch_folder()) as folder:
        listed = [(family, str(path)) for family, path in inputs]
        keeper = Keeper(Orders(f"{folder}/worker", package, families, "/nowhere", replay=listed), seconds)
        try:
            watch([keeper])
        finally:
            keeper.kill()
        return {Path(note["file"]): (note["kind"], note["text"]) for note in keeper.notes()}
