"""Rows that a run picks are moved one by one, by indices in memory: equal to ONNX Runtime's."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from npuviz.cli.main import main
from npuviz.targets.systolic.isa import UNIT_KINDS
from npuviz.targets.systolic.machine.entry_links import entry_links
from npuviz.targets.systolic.view.listing import SystolicListing
from tests.sweeps import seeds
from tests.targets.systolic.true_cases import chip, compile_model

Shape = tuple[int, ...]


def save(
    folder: Path,
    node: onnx.NodeProto,
    inputs: Mapping[str, np.ndarray],
    shape: Sequence[int],
    opset: int = 18,
) -> list[str]:
    """Store a model of one node and its inputs; returns the arguments that run it."""
    declared = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(each.dtype), each.shape)
        for name, each in inputs.items()
    ]
    out = helper.np_dtype_to_tensor_dtype(inputs["x"].dtype)
    graph = helper.make_graph([node], "g", declared, [helper.make_tensor_value_info("y", out, shape)])
    path = folder / "picks.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9), path)
    arguments = ["run", str(path), "--target", "systolic", "--check", "--json"]
    for name, values in inputs.items():
        np.save(folder / f"{name}.npy", values)
        arguments += ["--input", f"{name}={folder / name}.npy"]
    return arguments


def drawn(seed: int) -> tuple[onnx.NodeProto, dict[str, np.ndarray], Shape]:
    """Draw an operator that picks rows, its inputs and the shape of its result."""
    generator = np.random.default_rng(seed)
    rank = int(generator.integers(1, 5))
    shape = tuple(int(each) for each in generator.integers(1, 7, rank))
    is_float = generator.random() < 0.7
    values = generator.standard_normal(shape) if is_float else generator.integers(-9, 9, shape)
    x = values.astype(np.float32 if is_float else np.int32)
    op = str(generator.choice(["Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND"]))
    attributes: dict[str, Any] = {}
    number_type = np.int64
    if op in ("Gather", "GatherElements", "ScatterElements"):
        axis = int(generator.integers(0, rank))
        attributes["axis"] = axis - rank if generator.random() < 0.5 else axis
        if op == "Gather":
            picked = tuple(int(each) for each in generator.integers(1, 5, generator.integers(0, 3)))
            made = (*shape[:axis], *picked, *shape[axis + 1 :])
        else:
            picked = tuple(int(generator.integers(1, size + 1)) for size in shape)
            most = 9 if op == "GatherElements" else shape[axis]
            picked = (*picked[:axis], int(generator.integers(1, most + 1)), *picked[axis + 1 :])
            made = picked if op == "GatherElements" else shape
        numbers = generator.integers(-shape[axis], shape[axis], picked)
        if op == "ScatterElements":  # the same place twice has no defined result
            order = np.argsort(generator.random((*picked[:axis], shape[axis], *picked[axis + 1 :])), axis)
            numbers = np.take(order, np.arange(picked[axis]), axis)
        number_type = np.int32 if generator.random() < 0.3 else np.int64
    else:
        batch = int(generator.integers(0, rank)) if op == "GatherND" else 0
        width = int(generator.integers(1, rank - batch + 1))
        count = int(generator.integers(1, 6))
        sizes = shape[batch : batch + width]
        if op == "ScatterND":
            flat = generator.permutation(int(np.prod(sizes)))[:count]
            numbers = np.stack(np.unravel_index(flat, sizes), axis=-1)
        else:
            numbers = generator.integers(-np.array(sizes), sizes, (*shape[:batch], count, width))
            attributes["batch_dims"] = batch
        picked = (*numbers.shape[:-1], *shape[batch + width :])
        made = shape if op == "ScatterND" else picked
    inputs = {"x": x, "i": np.asarray(numbers).astype(number_type)}
    if op.startswith("Scatter"):
        inputs["u"] = generator.integers(-9, 9, picked).astype(x.dtype)
    return helper.make_node(op, list(inputs), ["y"], **attributes), inputs, made


@pytest.mark.parametrize("seed", seeds(16, 120, 300))
def test_picked_rows_are_those_of_onnx_runtime(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int
) -> None:
    node, inputs, shape = drawn(seed)
    assert main([*save(tmp_path, node, inputs, shape), "--set", "precision=4"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["on_host"] == []
    assert summary["check"]["end_to_end"] == {**summary["check"]["end_to_end"], "failed": 0}
    assert summary["hazards"] == []


def test_more_rows_than_a_tile_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    generator = np.random.default_rng(1)
    x = generator.standard_normal((50_000, 3)).astype(np.float32)
    node = helper.make_node("Gather", ["x", "i"], ["y"])
    inputs = {"x": x, "i": generator.integers(-50_000, 50_000, (700,))}
    assert main(save(tmp_path, node, inputs, (700, 3))) == 0
    assert json.loads(capsys.readouterr().out)["on_host"] == []


def test_an_index_outside_of_its_axis_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inputs = {"x": np.ones((4, 5), np.float32), "i": np.array([[1, 9]])}
    node = helper.make_node("GatherND", ["x", "i"], ["y"], name="pick")
    assert main(save(tmp_path, node, inputs, (1,))) == 2
    assert "GatherND pick: index 9 is outside of -5..4" in capsys.readouterr().err


def test_empty_results_take_no_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inputs = {"x": np.ones((4, 0), np.float32)}
    assert main(save(tmp_path, helper.make_node("Transpose", ["x"], ["y"]), inputs, (0, 4))) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["on_host"], summary["cycles"] < 20) == ([], True)


def test_a_picked_row_may_be_any_of_its_tensor(tmp_path: Path) -> None:
    """Which row it is, is not known before: everything about addresses says the whole tensor."""
    inputs = {"x": np.ones((40, 5), np.float32), "i": np.array([1, 9])}
    save(tmp_path, helper.make_node("Gather", ["x", "i"], ["y"]), inputs, (2, 5))
    compiled = compile_model(tmp_path / "picks.onnx", chip(precision=4))
    storage = compiled.plan.storages[compiled.graph.inputs[0]]
    tables = compiled.compiled.tables
    listing = SystolicListing(
        tables, 2, {(core, kind): 0 for core in (-1, 0, 1) for kind in UNIT_KINDS}, {}, ()
    )
    picked = [each for each in map(listing.describe, range(len(listing))) if "[0]" in each.text]
    assert [each.text.split(",")[1] for each in picked] == [f" DRAM:{storage.address:#x} + a1[0]"] * 2
    assert {(each.reads[0].address, each.reads[0].size_bytes) for each in picked} == {(storage.address, 800)}
    assert all(len(each.reads) == 2 for each in picked)
    links = entry_links(tables)
    assert all(
        np.isin(links[links[:, 1] == each.index, 0], range(len(listing))).sum() == 1 for each in picked
    )
