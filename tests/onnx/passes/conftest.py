"""Rules of rewriting models, not of the process that tells shapes by a run."""

import pytest


@pytest.fixture(autouse=True)
def runs_models_here(observed_here: None) -> None:
    """Run models in this process."""
