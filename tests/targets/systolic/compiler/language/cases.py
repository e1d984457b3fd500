"""Small language models and traces in an ONNXim home folder."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from npuviz.base.progress import NoProgress
from npuviz.sim.stop import NO_STOPS
from npuviz.sim.target import LoadRequest
from npuviz.targets.systolic.machine.machine import SystolicMachine
from npuviz.targets.systolic.target import TARGET

OPT = {
    "activation_function": "relu",
    "num_attention_heads": 4,
    "num_kv_heads": 4,
    "vocab_size": 100,
    "num_hidden_layers": 2,
    "hidden_size": 32,
    "intermediate_size": 64,
    "ffn_type": "default",
    "max_seq_length": 64,
}
LLAMA = OPT | {"activation_function": "swish", "num_kv_heads": 2, "ffn_type": "llama"}
GPT = OPT | {"activation_function": "gelu"}


def write_home(
    folder: Path,
    trace: Sequence[tuple[int, int, int, int]],
    model: Mapping[str, object] | None = None,
    **entry: object,
) -> Path:
    """A home folder with the model `tiny`, a trace, and a list file, which is returned."""
    models = folder / "models" / "language_models"
    models.mkdir(parents=True)
    (folder / "traces").mkdir()
    (models / "tiny.json").write_text(json.dumps(model or OPT))
    lines = ["time, prompt_length, target_length, cached_length"]
    lines += [", ".join(map(str, row)) for row in trace]
    (folder / "traces" / "input.csv").write_text("\n".join(lines) + "\n")
    path = folder / "list.json"
    path.write_text(json.dumps({"models": [{"name": "tiny", **entry}]}))
    return path


def run_list(path: Path, **settings: str) -> SystolicMachine:
    """Load a list file and run it to its end on a small chip."""
    request = LoadRequest(path, preset="edge-8x8-c4", settings={"spad_size": "128"} | settings)
    machine = TARGET.build(*TARGET.load(request, NoProgress()))
    assert isinstance(machine, SystolicMachine)
    machine.advance(1 << 40, NO_STOPS, None)
    return machine
