"""Seeded bugs are found, and the programs that they are made from have none."""

import numpy as np
import pytest

from npuviz.debug.session import Session
from npuviz.sim.checks.findings import findings_of
from npuviz.sim.machine import ChecksMemory, HasStillMemories
from npuviz.sim.stop import NO_STOPS, StopKind, StopReason
from npuviz.workbench.headless.exit_codes import EXIT_MISBEHAVED, exit_of
from npuviz.workbench.headless.run import findings_at, run_hazards
from npuviz.workbench.onnx_backend.execution import ExecutionOptions, compiled_machine, execute
from npuviz.workbench.opening import OpenOptions, open_file
from tests.node_cases import node_case
from tests.seeded import Seed, found_in, seeds
from tests.seeded.neuroncore import NEVER_BEGUN, changed, kernel
from tests.seeded.others import SHIFTED_BACK
from tests.seeded.seed import LIMIT, SAMPLES, sample
from tests.seeded.wavelet import right


def _one_of_each() -> list[Seed]:
    """The last seed of each machine and kind: the benchmark `findings` runs all of them."""
    return list({(seed.machine, seed.kind): seed for seed in seeds()}.values())


@pytest.mark.parametrize("machine", ["neuroncore", "rk3588", "systolic", "wavelet"])
def test_bugs_are_found(machine: str) -> None:
    chosen = [seed for seed in _one_of_each() if seed.machine == machine]
    assert len(chosen) >= 4
    missed = {seed.name: sorted(found.kinds) for seed in chosen
              if not (found := found_in(seed.make())).kinds & seed.expected}  # fmt: skip
    assert not missed


@pytest.mark.parametrize("model", ["tiny_cnn", "tiny_cnn_int8"])
def test_an_input_that_no_task_brings_to_its_reader_is_found(model: str) -> None:
    """The host fills another buffer of the input; the first task lays that out for the reader."""
    seed = next(s for s in seeds("rk3588") if s.name == f"{model}: task 0 writes nothing")
    assert "unwritten" in found_in(seed.make()).kinds


@pytest.mark.parametrize(
    ("kind", "expected"), [("an uninitialised read", "unwritten"), ("capacity", "capacity")]
)
def test_a_broken_tile_is_found_although_the_array_faults_too(kind: str, expected: str) -> None:
    found = [found_in(seed.make()).kinds for seed in seeds("systolic") if seed.kind == kind]
    assert any(expected in kinds for kinds in found)


@pytest.mark.parametrize("cores", ["2", "3"])
def test_cores_that_write_slices_of_one_buffer_do_not_race(cores: str) -> None:
    """Their ranges overlap, surface by surface; their atoms do not."""
    session = open_file(
        SAMPLES / "tiny_cnn.onnx", OpenOptions(target="rk3588", settings={"cores": cores})
    ).session
    assert session is not None
    assert found_in(session.machine).texts == ()


def test_a_program_without_values_says_so() -> None:
    seed = next(s for s in seeds("systolic") if s.kind == "out of bounds")
    machine = seed.make()
    machine.advance(LIMIT, NO_STOPS, None)
    findings = findings_of(machine)
    assert {each.kind for each in findings.hazards} >= {"out-of-bounds"}
    assert any(text.startswith("values: tile ") for text in findings.not_checked)


@pytest.mark.parametrize("name", ["tiny_cnn", "tiny_transformer"])
@pytest.mark.parametrize("target", ["neuroncore", "rk3588", "systolic"])
def test_what_our_compilers_make_has_none(target: str, name: str) -> None:
    machine = sample(target, name)
    begin = machine.snapshot()
    assert found_in(machine).texts == ()
    machine.restore(begin)


_WITH_SCRATCH = ("argmax_keepdims_random", "batchnorm_example", "cumsum_1d_exclusive", "dft_irfft",
                 "lstm_defaults", "matmulinteger", "qlinearconv", "reduce_max_empty_set")  # fmt: skip


@pytest.mark.parametrize(
    ("target", "name"),
    [*(("neuroncore", name) for name in _WITH_SCRATCH),
     ("systolic", "matmulinteger"),
     ("rk3588", "causal_conv_with_state_decode_step_expanded")],
)  # fmt: skip
def test_operators_that_hand_on_by_memory_store_nothing_in_vain(target: str, name: str) -> None:
    """Lowerings copy what the next round or another operator might need, and zero points: all is read."""
    case = node_case(name)
    inputs, expected = case.data_sets[0]
    options = ExecutionOptions(target=target)
    assert found_in(compiled_machine(case.model, inputs, options)[0]).texts == ()
    for mine, wanted in zip(execute(case.model, inputs, options).outputs, expected, strict=True):
        np.testing.assert_allclose(mine, wanted, rtol=1e-3, atol=2e-3 if target == "rk3588" else 1e-4)


def test_the_right_csl_programs_have_none() -> None:
    assert {name: found_in(make()).texts for name, make in right()} == {"pass on": (), "exchange": ()}


@pytest.mark.parametrize("target", ["neuroncore", "rk3588", "systolic"])
def test_a_race_is_no_success_even_if_its_values_are_right(target: str) -> None:
    """The headless run says it, and a still of the machine, which the window asks, the same."""
    seed = next(s for s in seeds() if s.machine == target and "early-read" in s.expected)
    session = Session(seed.make())
    stop = session.run()
    assert stop.kind == StopKind.FINISHED
    findings = findings_at(session, stop)
    assert isinstance(session.machine, HasStillMemories)
    assert findings == findings_of(session.machine, session.machine.still_memories())
    hazards = run_hazards(stop, findings)
    code, reason = exit_of(stop, None, hazards)
    assert (code, reason.split()[0]) == (EXIT_MISBEHAVED, "hazard")
    assert all(hazard["mend"] for hazard in hazards if hazard["kind"] in seed.expected)
    assert findings_at(session, StopReason(StopKind.UNTIL, session.cycle)) == findings


def _line_with(text: str, part: str) -> int:
    """The last one."""
    return max(number for number, line in enumerate(text.splitlines(), 1) if part in line)


def test_a_finding_of_a_kernel_names_its_line() -> None:
    machine = kernel(NEVER_BEGUN)
    machine.advance(LIMIT, NO_STOPS, None)
    found = findings_of(machine).hazards
    line = _line_with(NEVER_BEGUN, "tensor_tensor")
    assert [hazard.kind for hazard in found] == ["unwritten"]
    assert found[0].text.startswith(f"kernel.py:{line}: Core[0].DVE: instruction 4 (tensor_tensor) reads ")
    assert found[0].text.endswith("nobody has written")


def test_what_a_kernel_makes_of_finite_inputs_is_told() -> None:
    text = NEVER_BEGUN.replace("data1=total, data2=tile, op=nl.add", "data1=tile, data2=tile, op=nl.subtract")
    inverse = "    nisa.reciprocal(dst=total, data=total)\n    nisa.dma_copy(dst=out"
    machine = kernel(text.replace("    nisa.dma_copy(dst=out", inverse))
    machine.advance(LIMIT, NO_STOPS, None)
    found = findings_of(machine).hazards
    assert [(each.kind, each.text) for each in found] == [
        ("infinity", "output out has 0 NaNs and 8192 infinities, and no input has any")
    ]


def test_a_finding_of_two_instructions_names_both_lines() -> None:
    def unwaited(code: np.ndarray) -> None:
        code["waits"]["used"] = 0

    machine = changed(kernel(NEVER_BEGUN), unwaited)
    machine.advance(LIMIT, NO_STOPS, None)
    early = [each for each in findings_of(machine).hazards if each.kind == "early-read"]
    store, add = _line_with(NEVER_BEGUN, "dst=out"), _line_with(NEVER_BEGUN, "tensor_tensor")
    assert any(
        each.text.startswith(f"kernel.py:{store}: {each.unit}: ")
        and each.text.endswith(f"; the other one is in kernel.py:{add}")
        for each in early
    )


_ROUNDS = """
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(a):
    out = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    last = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    total = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=last, src=a)
    nisa.memset(dst=total, value=0.0)
    for number in range(3):
        %s
        nisa.tensor_copy(dst=last, src=total)
    nisa.dma_copy(dst=out, src=%s)
    return out
"""
_USES_LAST = "nisa.tensor_tensor(dst=total, data1=total, data2=last, op=nl.add)"
_COUNTS = "nisa.tensor_scalar(dst=total, data=total, op0=nl.add, operand0=1.0)"


@pytest.mark.parametrize(
    ("line", "result", "dead"), [(_USES_LAST, "total", 0), (_COUNTS, "total", 3), (_COUNTS, "last", 2)]
)
def test_what_only_another_round_of_a_loop_would_read_is_not_dead(line: str, result: str, dead: int) -> None:
    machine = kernel(_ROUNDS % (line, result))
    machine.advance(LIMIT, NO_STOPS, None)
    kinds = [hazard.kind for hazard in findings_of(machine).hazards]
    assert kinds.count("dead-store") == dead


def test_a_copy_to_the_front_of_its_own_row_reads_before_it_writes() -> None:
    assert found_in(kernel(SHIFTED_BACK)).texts == ()


def test_what_is_not_looked_at_or_listed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = ("neuroncore", "a wait for a write removed")
    machine = next(seed for seed in seeds() if (seed.machine, seed.kind) == broken).make()
    machine.advance(LIMIT, NO_STOPS, None)
    assert isinstance(machine, ChecksMemory)
    whole = machine.memory_hazards()
    assert whole.hazards
    assert whole.not_checked == ()
    monkeypatch.setattr("npuviz.sim.checks.memory.MOST_OF_A_KIND", 0)
    assert machine.memory_hazards().hazards == ()
    assert sum(int(text.split()[0]) for text in machine.memory_hazards().not_checked) == len(whole.hazards)
    monkeypatch.setattr("npuviz.sim.checks.memory.MOST_WORDS", 0)
    assert "a run too large" in machine.memory_hazards().not_checked[0]
