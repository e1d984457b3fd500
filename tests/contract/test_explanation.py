"""`npuviz explain`: predictions against runs, what-if questions, bundles."""

import json
import pickle
from collections import Counter
from collections.abc import Iterator, Sequence
from math import inf
from pathlib import Path
from typing import Any

import pytest

from npuviz.base.errors import UsageError
from npuviz.base.progress import NoProgress
from npuviz.base.units import format_share
from npuviz.cli.main import main
from npuviz.workbench.causes.explanation import cycles_with, explain_run, explanation_text
from npuviz.workbench.causes.run import run_causes
from npuviz.workbench.causes.what_if_text import parse_what_if
from npuviz.workbench.opening import OpenOptions, open_file
from tests.sweeps import quick

pytestmark = pytest.mark.usefixtures("kept_scripts")

SAMPLES = Path(__file__).parents[2] / "sample_models"
CNN = SAMPLES / "tiny_cnn.onnx"
TRANSFORMER = SAMPLES / "tiny_transformer.onnx"
ROW_SUM = SAMPLES / "csl" / "row_sum"
CASES = [("neuroncore", {}), ("rk3588", {"batch": "1"}), ("systolic", {})]


@pytest.mark.parametrize(("target", "settings"), CASES)
def test_predicted_and_real_gains_agree(target: str, settings: dict[str, str]) -> None:
    options = OpenOptions(target=target, settings=settings)
    found = explain_run(CNN, options, (True, ()), NoProgress())
    assert sum(found["critical_path"].values()) == found["cycles"]
    assert len(found["costs"]) == 5
    for times in found["units"].values():
        assert sum(times.values()) == found["cycles"]
    remedies = [cost["remedy"] for cost in found["costs"] if "remedy" in cost]
    assert remedies
    for remedy in remedies:
        opened = open_file(CNN, options)
        assert remedy["verified_gain"] == found["cycles"] - cycles_with(
            opened, remedy["settings"], NoProgress()
        )
        if remedy["predicted_gain"] is not None:
            assert abs(remedy["predicted_gain"] - remedy["verified_gain"]) <= 0.05 * found["cycles"]
    assert "critical path" in explanation_text(found)


def test_of_several_remedies_the_run_that_gains_most_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    options = OpenOptions(target="wavelet", preset="wse3")
    gains = {"hop": 3, "turn": 9, "ramp": 6}

    def cycles(_opened: object, settings: dict[str, str], _progress: object) -> int:
        return 383 - gains.get(next(iter(settings)), 0)

    monkeypatch.setattr("npuviz.workbench.causes.explanation.cycles_with", cycles)
    monkeypatch.setattr("npuviz.workbench.causes.explanation.default_jobs", lambda: 1)
    found = explain_run(ROW_SUM, options, (True, ()), NoProgress())
    assert found["cycles"] == 383
    remedy = next(cost["remedy"] for cost in found["costs"] if cost["kind"] == "words")
    assert remedy["settings"] == {"turn": "0"}
    assert (remedy["verified_gain"], remedy["predicted_gain"]) == (9, None)
    assert "not predictable; run again: 9 cycles" in explanation_text(found)


def test_a_prediction_that_does_not_hold_is_said() -> None:
    found = explain_run(CNN, OpenOptions(target="neuroncore"), (True, ("dve_hz=480000000",)), NoProgress())
    assert "does not hold" not in explanation_text(found)
    found["what_if"][0]["error"] = 0.051
    assert (
        explanation_text(found).count(
            f"{format_share(0.051)} of the run apart, so that the prediction does not hold"
        )
        == 1
    )


@quick(every=2)
@pytest.mark.parametrize(
    ("model", "target", "text", "is_predicted"),
    [
        (CNN, "neuroncore", "dma_start_ns=650", True),
        (CNN, "neuroncore", "dve_hz=480000000", True),
        (CNN, "neuroncore", "num_dma_engines=4", False),
        (CNN, "rk3588", "ddr_hz=780000000 job_driver_ns=4000", True),
        (CNN, "rk3588", "cores=3", False),
        (CNN, "systolic", "core_freq=500", False),
        (TRANSFORMER, "systolic", "gelu_latency=4000 div_latency=2000", True),
        (TRANSFORMER, "systolic", "exp_latency=4000", False),
    ],
)
def test_any_setting_may_be_asked_for_and_is_run(
    model: Path, target: str, text: str, is_predicted: bool
) -> None:
    options = OpenOptions(target=target)
    found = explain_run(model, options, (True, (text,)), NoProgress())
    answer = found["what_if"][0]
    settings = dict(pair.split("=") for pair in text.split())
    real = cycles_with(open_file(model, options), settings, NoProgress())
    assert answer["verified"] == real != found["cycles"]
    assert (answer["predicted_gain"] is not None) == is_predicted
    if is_predicted:
        assert abs(answer["predicted_cycles"] - real) <= 0.05 * real
    assert "run again" in explanation_text(found).split("what if")[1]


def test_what_processes_are_given_and_give_back_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `in_processes` does with it is tested by `races`, tests/contract/test_races.py."""
    asked = (True, ("dma_start_ns=650", "dve_hz=nothing"))
    monkeypatch.setattr("npuviz.workbench.causes.explanation.WORTH_A_PROCESS", inf)
    here = explain_run(CNN, OpenOptions(target="neuroncore"), asked, NoProgress())
    handed: list[int] = []

    def in_processes(work: Any, tasks: Sequence[Any], count: int) -> Iterator[Any]:
        handed.extend((len(tasks), count))
        for task in tasks:
            run, given = pickle.loads(pickle.dumps((work, task)))
            yield pickle.loads(pickle.dumps(run(given)))

    monkeypatch.setattr("npuviz.workbench.causes.explanation.WORTH_A_PROCESS", 0.0)
    monkeypatch.setattr("npuviz.workbench.causes.explanation.default_jobs", lambda: 2)
    monkeypatch.setattr("npuviz.workbench.causes.explanation.in_processes", in_processes)
    assert explain_run(CNN, OpenOptions(target="neuroncore"), asked, NoProgress()) == here
    assert handed[0] > 1
    assert handed[1] == 2


# Quicker: the one above in this process.
@pytest.mark.sweep
def test_runs_in_processes_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = (True, ("dma_start_ns=650", "dve_hz=nothing"))
    monkeypatch.setattr("npuviz.workbench.causes.explanation.WORTH_A_PROCESS", inf)
    here = explain_run(CNN, OpenOptions(target="neuroncore"), asked, NoProgress())
    assert "not verified" in here["what_if"][1]["note"]
    monkeypatch.setattr("npuviz.workbench.causes.explanation.WORTH_A_PROCESS", 0.0)
    monkeypatch.setattr("npuviz.workbench.causes.explanation.default_jobs", lambda: 2)
    assert explain_run(CNN, OpenOptions(target="neuroncore"), asked, NoProgress()) == here


@pytest.mark.parametrize("text", ["dma_stat_ns=650", "dma_start_ns=650 dve=1"])
def test_a_setting_that_there_is_not_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="unknown key"):
        explain_run(CNN, OpenOptions(target="neuroncore"), (False, (text,)), NoProgress())


def test_costs_add_up_to_the_run_and_to_its_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("npuviz.workbench.causes.run.SHOWN_PARTS", 1 << 20)
    session = open_file(CNN, OpenOptions(target="neuroncore")).session
    assert session is not None
    session.run()
    assert session.trace is not None
    found = run_causes(session.trace, session.program)
    assert sum(cost.cycles for cost in found.costs) == found.cycles
    total: Counter[str] = Counter()
    for cost in found.costs:
        total.update(dict(cost.operators))
    expected = {name: sum(causes.values()) for name, causes in found.operators.items()}
    assert {**total, "": expected.get("", 0)} == {"": 0, **expected}


def test_a_bundle_is_explained_without_its_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = tmp_path / "run.npuviz"
    run = ["run", str(CNN), "--target", "neuroncore", "--record", str(bundle)]
    assert main(run) == 0
    assert main(["explain", str(CNN), "--target", "neuroncore", "--no-verify", "--json"]) == 0
    live = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert main(["explain", str(bundle), "--json", "--what-if", "unit=PE speed=2"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["critical_path"] == live["critical_path"]
    assert found["units"] == live["units"]
    assert 0 < found["what_if"][0]["predicted_gain"] < found["cycles"]
    assert found["what_if"][0]["verified"] is None
    assert main(["explain", str(bundle), "--what-if", "pe_hz=1"]) == 2
    assert "no settings" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text", ["", "unit=PE", "speed=2", "unit=PE speed=0", "unit=PE speed=x", "unit=NOPE speed=2", "PE 2", "'"]
)
def test_what_names_nothing_or_is_no_question_is_refused(text: str) -> None:
    session = open_file(CNN, OpenOptions(target="neuroncore")).session
    assert session is not None
    assert session.trace is not None
    with pytest.raises(UsageError, match="what-if"):
        parse_what_if(text, session.trace.schema)
