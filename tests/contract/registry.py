"""The programs that the contract suite runs. A new target adds a case and is done.

Keep programs small: a few hundred to a few thousand cycles; the suite steps through them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from onnx import TensorProto, helper, save
from onnx.numpy_helper import from_array

from npuviz.base.progress import NoProgress
from npuviz.program.program import Program
from npuviz.sim.machine import Machine
from npuviz.sim.target import LoadRequest, Target
from npuviz.targets.neuroncore.target import TARGET as NEURONCORE
from npuviz.targets.rk3588.target import TARGET as RK3588
from npuviz.targets.systolic.target import TARGET as SYSTOLIC
from npuviz.targets.wavelet.target import TARGET as WAVELET
from tests.contract.wafer_chain import write_chain
from tests.toy.target import TARGET as TOY
from tests.toy.target import write_toy


@dataclass(frozen=True)
class Case:
    """A small program for one target.

    request     writes the program's files into an empty folder and says how to load them
    has_values  whether the machine computes tensors in this mode, so that `check` can compare them
    """

    name: str
    target: Target
    request: Callable[[Path], LoadRequest]
    has_values: bool = True

    @cached_property
    def loaded(self) -> tuple[Any, Program]:
        """Spec and program; made once."""
        with TemporaryDirectory() as folder:
            return self.target.load(self.request(Path(folder)), NoProgress())

    def make(self) -> Machine:
        """A new machine at cycle 0."""
        return self.target.build(*self.loaded)


def _toy(**sizes: int) -> Callable[[Path], LoadRequest]:
    return lambda folder: LoadRequest(write_toy(folder / "small.toy", **sizes))


SAMPLES = Path(__file__).parents[2] / "sample_models"
SMALL_CORES = SAMPLES / "systolic_2x16x16.json"


def _sample(name: str, **settings: str) -> Callable[[Path], LoadRequest]:
    return lambda _folder: LoadRequest(SAMPLES / name, config=SMALL_CORES, settings=settings)


def _neuron(name: str, preset: str = "", **settings: str) -> Callable[[Path], LoadRequest]:
    return lambda _folder: LoadRequest(SAMPLES / name, preset=preset, settings=settings)


def _sample_of(name: str, **settings: str) -> Callable[[Path], LoadRequest]:
    return lambda _folder: LoadRequest(SAMPLES / name, settings=settings)


def _product(folder: Path) -> LoadRequest:
    """One matrix product with a bias: small, and something that parity mode takes."""
    weight = np.arange(48 * 32, dtype=np.float32).reshape(48, 32) % 7 - 3
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["y"], name="product")]
    constants = [from_array(weight, "w"), from_array(weight[0].copy(), "b")]
    ends = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [64, 48]), ("y", [64, 32]))
    ]
    graph = helper.make_graph(nodes, "product", ends[:1], ends[1:], constants)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), folder / "product.onnx")
    return LoadRequest(folder / "product.onnx", config=SMALL_CORES, settings={"mode": "parity"})


def _convolution(folder: Path) -> LoadRequest:
    """A convolution whose loads are so small that several send their requests in one cycle."""
    weight = np.arange(10 * 27, dtype=np.float32).reshape(10, 3, 3, 3) % 7 - 3
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["y"], name="convolution")]
    constants = [from_array(weight, "w"), from_array(weight[:, 0, 0, 0].copy(), "b")]
    ends = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
        for n, s in (("x", [1, 3, 20, 20]), ("y", [1, 10, 18, 18]))
    ]
    graph = helper.make_graph(nodes, "convolution", ends[:1], ends[1:], constants)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), folder / "convolution.onnx")
    return LoadRequest(folder / "convolution.onnx")


COMMANDS = {"dram_type": "ramulator2", "dram_device": "HBM2"}
MESH = {"dram_type": "ramulator2", "dram_device": "DDR4", "network": "mesh", "icnt_type": "booksim2"}
CASES = [
    Case("toy", TOY, _toy(blocks=4)),
    Case("toy with short queues", TOY, _toy(blocks=5, queue=1, elements=6, latency=2)),
    Case("systolic cnn", SYSTOLIC, _sample("tiny_cnn.onnx")),
    Case("systolic transformer", SYSTOLIC, _sample("tiny_transformer.onnx")),
    Case("systolic cnn with HBM2", SYSTOLIC, _sample("tiny_cnn.onnx", **COMMANDS)),
    Case("systolic cnn with DDR4 on a mesh", SYSTOLIC, _sample("tiny_cnn.onnx", **MESH)),
    Case("neuroncore cnn", NEURONCORE, _neuron("tiny_cnn.onnx")),
    Case(
        "neuroncore transformer on trn1", NEURONCORE, _neuron("tiny_transformer.onnx", "trn1", dtype="bf16")
    ),
    Case("rk3588 cnn in int8", RK3588, _sample_of("tiny_cnn_int8.onnx", batch="1")),
    Case("rk3588 cnn on three cores", RK3588, _sample_of("tiny_cnn.onnx", batch="1", cores="3")),
    # The host program of a wafer checks its values itself.
    Case("wafer, three PEs in a chain", WAVELET, write_chain, has_values=False),
    # Parity reproduces ONNXim, which has no values.
    Case("systolic product in parity mode", SYSTOLIC, _product, has_values=False),
]
SMALL_LOADS = Case("systolic loads of one cycle", SYSTOLIC, _convolution)
"""Beside the cases, for what is recorded of loads."""
