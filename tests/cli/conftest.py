import pytest

from tests.workbench.toy_registry import install_toy


@pytest.fixture
def toy_target(monkeypatch: pytest.MonkeyPatch) -> None:
    install_toy(monkeypatch)
