"""The kernels against the slow machine, to the cycle, on random programs of every generation."""

import random

import numpy as np
import pytest

from npuviz.program.graph import Graph
from npuviz.sim.stop import NO_STOPS
from npuviz.targets.neuroncore.isa import Opcode, Space
from npuviz.targets.neuroncore.kernels import records as sk
from npuviz.targets.neuroncore.machine.engine import Engine
from npuviz.targets.neuroncore.spec import NeuronSpec, make_spec
from npuviz.targets.neuroncore.tables import Tables
from npuviz.targets.neuroncore.view.description import numbering, used_semaphores
from tests.sweeps import seeds
from tests.targets.neuroncore.random_programs import assemble, instruction, operand, random_tables
from tests.targets.neuroncore.slow_machine import SlowMachine

GRAPH = Graph("random", (), (), (), ())


def pe_program(spec: NeuronSpec, seed: int) -> Tables:
    """Transposes of many sizes on PE, with pauses between them, long and short."""
    draw = random.Random(seed)
    rows: list[np.ndarray] = []
    for _ in range(60):
        if draw.random() < 0.3:
            row = instruction(0, Opcode.NOP)
            row["id"] = draw.choice([20, 60, 300])
        else:
            row = instruction(0, Opcode.NC_TRANSPOSE)
            partitions, count = draw.choice([16, 64, 128]), draw.choice([16, 64, 128])
            operand(row, 0, Space.PSUM, 0, partitions, count)
            operand(row, 1, Space.SBUF, 0, count, partitions)
        rows.append(row)
    return assemble(spec, rows, {}, ())


@pytest.mark.parametrize("seed", seeds(3, 12, 60))
def test_the_limit_of_pe_agrees_to_the_cycle(seed: int) -> None:
    spec, _ = make_spec("trn2", settings={"pe_ramp_ns": str((40, 150, 900)[seed % 3])})
    tables = pe_program(spec, seed)
    engine = Engine(spec, tables, GRAPH, numbering(spec, tables, used_semaphores(spec, tables)))
    engine.advance(1 << 40, NO_STOPS, None)
    slow = SlowMachine(spec, tables)
    slow.run()
    assert [(row[0], row[1]) for row in engine.log().tolist()] == slow.log


@pytest.mark.parametrize("preset", ["trn1", "trn2", "trn3", "inf1"])
@pytest.mark.parametrize("seed", seeds(3, 12, 60))
def test_agrees_to_the_cycle(preset: str, seed: int) -> None:
    spec, _ = make_spec(preset, settings={"dma_start_ns": "150"})
    tables = random_tables(spec, seed)
    engine = Engine(spec, tables, GRAPH, numbering(spec, tables, used_semaphores(spec, tables)))
    result, _ = engine.advance(1 << 40, NO_STOPS, None)
    slow = SlowMachine(spec, tables)
    cycles = slow.run()
    assert result == sk.RESULT_FINISHED
    assert [(row[0], row[1]) for row in engine.log().tolist()] == slow.log
    assert int(engine.state[sk.CHIP.cycle]) == cycles


def test_a_random_program_meets_a_shared_port() -> None:
    """The comparison above covers ports: without them this program takes another time."""
    spec, _ = make_spec("trn1", settings={"dma_start_ns": "150"})
    tables = random_tables(spec, 4)
    slow, free = SlowMachine(spec, tables), SlowMachine(spec, tables)
    free.ports[:] = 0
    assert slow.run() != free.run()
