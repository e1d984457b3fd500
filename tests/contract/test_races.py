"""Races: none in what our compilers emit, and those of programs with a synchronisation taken out."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npuviz
from benchmarks.broken import passes, sample, with_joined_jobs, without_wait
from npuviz.base.errors import UsageError
from npuviz.cli.main import main
from npuviz.sim.latencies import with_latency_seed
from npuviz.sim.stop import NO_STOPS
from npuviz.workbench.races.runs import Racer
from npuviz.workbench.races.search import has_found, races_report, races_text

SAMPLES = Path(__file__).parents[2] / "sample_models"
CASES = [("tiny_transformer.onnx", "neuroncore", {}), ("tiny_cnn_int8.onnx", "rk3588", {"cores": "3"})]


@pytest.mark.parametrize(("name", "target", "settings"), CASES)
def test_compiled_programs_have_no_races(name: str, target: str, settings: dict[str, str]) -> None:
    racer = sample(name, target, **settings)
    results = [racer.at(seed) for seed in range(1, 9)]
    assert not any(each.race or each.stop or each.changed for each in results)
    assert len({each.cycles for each in results}) > 4, "seeds must change the times"
    assert racer.at(3) == results[2]


def _outputs(racer: Racer, seed: int) -> list[bytes]:
    machine = racer.target.build(with_latency_seed(racer.spec, seed), racer.program)
    machine.advance(1 << 40, NO_STOPS, None)
    return [np.asarray(machine.tensor(tensor)).tobytes() for tensor in racer.program.graph.outputs]


def test_a_removed_wait_that_passes_nominally_is_found_and_replayed() -> None:
    racer = sample("tiny_transformer.onnx", "neuroncore")
    waits = np.argwhere(racer.program.payload.tables.instructions["waits"]["used"] > 0).tolist()
    broken = [without_wait(racer, *place) for place in waits[10:30]]
    passing = [each for each in broken if passes(racer, each)]
    found = [(each, [r for r in map(each.at, range(1, 9)) if r.race]) for each in passing]
    found = [(each, results) for each, results in found if results]
    assert len(passing) > 4
    assert len(found) > 2
    for each, results in found:
        report = races_report(Path("model.onnx"), each, results)
        race = report["races"][0]
        assert has_found(report)
        assert f"latency_seed={race['seed']}" in races_text(report)
        assert race["reader"]["unit"]
        assert race["memory"]
        writers = [access["instruction"] for access in race["nominal"]["written_by"]]
        assert writers != [access["instruction"] for access in race["other"]["written_by"]]
    changed = [_outputs(each, 0) != _outputs(each, results[0].seed) for each, results in found]
    assert any(changed)


def test_a_job_that_does_not_wait_for_other_cores_is_found() -> None:
    racer = sample("tiny_cnn_int8.onnx", "rk3588", cores="3")
    jobs = range(1, racer.program.payload.tables.num_jobs)
    passing = [broken for job in jobs if passes(racer, broken := with_joined_jobs(racer, job))]
    races = [race for broken in passing for seed in range(1, 9) if (race := broken.at(seed).race)]
    assert races
    assert all(race.wrote_nominal for race in races)


def test_stores_and_loads_of_one_cycle_are_no_race() -> None:
    racer = sample("tiny_cnn.onnx", "systolic")
    results = [racer.at(seed) for seed in (1, 2, 3, 4, 19)]
    assert not any(each.changed or each.race or each.stop for each in results)
    assert len({each.cycles for each in results}) > 2


def test_command_line_and_api_say_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    model = str(SAMPLES / "tiny_cnn_int8.onnx")
    assert main(["races", model, "--target", "rk3588", "--seeds", "4", "--jobs", "2", "--json"]) == 0
    printed: dict[str, Any] = json.loads(capsys.readouterr().out)
    found = npuviz.races(model, seeds=4, target="rk3588")
    assert printed == found
    assert found["races"] == found["stops"] == []
    assert found["seeds"] == 4
    assert all(each["source"] == "assumed" for each in found["varied"])


def test_what_cannot_be_asked_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["races", str(SAMPLES / "tiny_cnn.onnx"), "--seeds", "0"]) == 2
    assert (
        main(["races", str(SAMPLES / "tiny_cnn.onnx"), "--target", "rk3588", "--set", "latency_seed=4"]) == 2
    )
    assert len(capsys.readouterr().err.strip().splitlines()) == 2
    with pytest.raises(UsageError):
        npuviz.races(SAMPLES / "tiny_cnn_int8.onnx", seeds=1, jobs=0, target="rk3588")
