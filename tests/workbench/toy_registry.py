"""Puts the toy target where the workbench looks for targets."""

from pathlib import Path

import pytest

from npuviz.base import registry
from npuviz.workbench import choosing
from tests.toy.target import ToyTarget


def install_toy(monkeypatch: pytest.MonkeyPatch) -> None:
    real = registry.load_plugins

    def with_toy(group: str) -> dict[str, object]:
        return {"toy": ToyTarget()} if group == registry.TARGETS else real(group)

    monkeypatch.setattr(choosing, "load_plugins", with_toy)


def toy_file(folder: Path, text: str = "{}", name: str = "small.toy") -> Path:
    path = folder / name
    path.write_text(text)
    return path
