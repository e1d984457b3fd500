"""npuviz as a standard ONNX backend: models run on a simulated chip.

    import npuviz.onnx_backend as backend
    outputs = backend.run_model(model, [x, y])

    onnx.backend.test.BackendTest(npuviz.onnx_backend, __name__)

The machine is the first installed target that takes ONNX models; NPUVIZ_ONNX_TARGET and
NPUVIZ_ONNX_PRESET choose others, and so do the keyword arguments `target`, `preset` and `settings`.

`python -m npuviz.onnx_backend --report FILE` runs onnx's node cases and writes a page about them.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep, namedtupledict

from npuviz.base.errors import NpuvizError
from npuviz.workbench.onnx_backend.execution import (
    Execution,
    ExecutionOptions,
    as_array,
    choose_onnx_target,
    execute,
)

DEVICES = ("CPU", "NPU")
"""Names under which onnx may ask for the one device: its tests know "CPU" and "CUDA" only."""


class PreparedModel(BackendRep):
    """A checked model. It is compiled for each run, for the inputs of that run.

    last  the latest run: which operators ran where, cycles, parameters; None before the first
    """

    def __init__(self, model: onnx.ModelProto, options: ExecutionOptions) -> None:
        self.model = model
        self.options = options
        self.last: Execution | None = None

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Outputs for a sequence of arrays or TensorProto, a mapping of them by input name, or a single one.

        Raises NpuvizError.
        """
        del kwargs
        self.last = execute(self.model, _in_order(self.model, inputs), self.options)
        names = [value.name for value in self.model.graph.output]
        return namedtupledict("Outputs", names)(*self.last.outputs)


class NpuvizBackend(Backend):
    """See onnx.backend.base.Backend."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether all inputs and outputs are tensors of numbers."""
        del kwargs
        return cls.supports_device(device) and all(
            value.type.HasField("tensor_type") and value.type.tensor_type.elem_type != onnx.TensorProto.STRING
            for value in (*model.graph.input, *model.graph.output)
        )

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> PreparedModel:
        """Check the model. Keyword arguments: target, preset, settings (a mapping), as on the command line.

        Raises NpuvizError for a device there is none of, and what onnx.checker raises.
        """
        if not cls.supports_device(device):
            raise NpuvizError(f"no device {device!r}; devices: {', '.join(DEVICES)}")
        super().prepare(model, device)
        settings: Mapping[str, str] = kwargs.get("settings") or {}
        options = ExecutionOptions(kwargs.get("target", ""), kwargs.get("preset", ""), dict(settings))
        choose_onnx_target(options.target)
        return PreparedModel(model, options)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Run a single operator; kwargs: opset_version, and those of `prepare`. Raises NpuvizError."""
        version = int(kwargs.pop("opset_version", onnx.defs.onnx_opset_version()))
        names = [name for name in node.input if name]
        arrays = [as_array(array) for array in inputs]
        graph_inputs = [
            onnx.helper.make_tensor_value_info(
                name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
            for name, array in zip(names, arrays, strict=True)
        ]
        infos: Sequence[Any] = outputs_info or [None] * len(node.output)
        graph_outputs = [
            onnx.ValueInfoProto(name=name)
            if info is None
            else onnx.helper.make_tensor_value_info(
                name, onnx.helper.np_dtype_to_tensor_dtype(np.dtype(info[0])), info[1]
            )
            for name, info in zip(node.output, infos, strict=True)
        ]
        graph = onnx.helper.make_graph([node], node.op_type or "node", graph_inputs, graph_outputs)
        opset = onnx.helper.make_opsetid(node.domain, version)
        model = onnx.helper.make_model_gen_version(graph, opset_imports=[opset])
        if outputs_info is None:
            model = onnx.shape_inference.infer_shapes(model)
        return cls.prepare(model, device, **kwargs).run(arrays)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """ "CPU" (the name onnx's tests use) and "NPU"."""
        return device in DEVICES


def _in_order(model: onnx.ModelProto, inputs: Any) -> list[Any]:
    if isinstance(inputs, Mapping):
        initialised = {tensor.name for tensor in model.graph.initializer}
        names = [value.name for value in model.graph.input if value.name not in initialised]
        missing = [name for name in names if name not in inputs]
        if missing:
            raise NpuvizError(f"no value for the input {missing[0]!r}")
        return [inputs[name] for name in names]
    return [inputs] if isinstance(inputs, np.ndarray | onnx.TensorProto) else list(inputs)


is_compatible = NpuvizBackend.is_compatible
prepare = NpuvizBackend.prepare
run_model = NpuvizBackend.run_model
run_node = NpuvizBackend.run_node
supports_device = NpuvizBackend.supports_device


def main(arguments: Sequence[str] | None = None) -> int:
    """Run onnx's node cases; 1 if one failed."""
    from npuviz.workbench.onnx_backend.cases import FAIL
    from npuviz.workbench.onnx_backend.report import not_on_engines, report, summary
    from npuviz.workbench.onnx_backend.suite import run_suite

    parser = argparse.ArgumentParser(prog="python -m npuviz.onnx_backend", description=main.__doc__)
    parser.add_argument("--report", type=Path, help="write a Markdown page here")
    parser.add_argument("--failures", type=Path, help="write the cases that are not wholly on engines here")
    parser.add_argument(
        "--results", type=Path, default=Path("build/onnx-backend"), help="folder of the results"
    )
    parser.add_argument("--resume", action="store_true", help="go on with the results that are there")
    parser.add_argument("--only", default="", help="regular expression on the names of the cases")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--target", default="")
    parser.add_argument("--preset", default="")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    chosen = parser.parse_args(arguments)
    pairs = [text.partition("=") for text in chosen.set]
    options = ExecutionOptions(chosen.target, chosen.preset, {key: value for key, _, value in pairs})
    try:
        target = choose_onnx_target(options.target)
        results = run_suite(
            chosen.results, options, pattern=chosen.only, jobs=max(1, chosen.jobs), resumes=chosen.resume
        )
    except NpuvizError as error:
        print(f"npuviz: error: {error}", file=sys.stderr)
        return 2
    preset = options.preset or next(iter(target.presets), "")
    machine = f"{target.title}, preset {preset}" if preset else target.title
    command = f"python -m npuviz.onnx_backend --report {chosen.report}"
    if options.target:
        command += f" --target {options.target}"
    if chosen.report is not None:
        page = report(results, machine=machine, version=onnx.__version__, command=command)
        chosen.report.write_text(page)
    if chosen.failures is not None:
        chosen.failures.write_text(not_on_engines(results))
    print(summary(results))
    return 1 if any(result.category == FAIL for result in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
