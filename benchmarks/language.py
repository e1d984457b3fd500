"""Measures time and memory to build and start the programs of language models of realistic size."""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.row import Row

OPT_125M = {
    "activation_function": "relu", "num_attention_heads": 12, "num_kv_heads": 12, "vocab_size": 50272,
    "num_hidden_layers": 12, "hidden_size": 768, "intermediate_size": 3072, "ffn_type": "default",
    "max_seq_length": 2048,
}  # fmt: skip
LLAMA3_8B = {
    "activation_function": "swish", "num_attention_heads": 32, "num_kv_heads": 8, "vocab_size": 128256,
    "num_hidden_layers": 32, "hidden_size": 4096, "intermediate_size": 14336, "ffn_type": "llama",
    "max_seq_length": 8192,
}  # fmt: skip
MODELS = {"opt-125m": OPT_125M, "llama3-8b": LLAMA3_8B}
TRACE = "time, prompt_length, target_length, cached_length\n0, 100, 16, 0\n100, 100, 15, 0\n"
CYCLES = 200_000
LIMIT_MIB = 1024


def measure(name: str, mode: str) -> tuple[float, float, int]:
    """Build all iterations of a trace and run CYCLES cycles. Returns (seconds to build, peak MiB, tiles)."""
    from npuviz.base.progress import NoProgress
    from npuviz.sim.stop import NO_STOPS
    from npuviz.sim.target import LoadRequest
    from npuviz.targets.systolic.target import TARGET

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "models" / "language_models").mkdir(parents=True)
        (root / "traces").mkdir()
        (root / "models" / "language_models" / f"{name}.json").write_text(json.dumps(MODELS[name]))
        (root / "traces" / "input.csv").write_text(TRACE)
        path = root / "list.json"
        path.write_text(json.dumps({"models": [{"name": name}]}))
        settings = {"mode": mode, "dram_size": "0"}
        begin = time.process_time()
        spec, program = TARGET.load(LoadRequest(path, preset="tpuv4", settings=settings), NoProgress())
        seconds = time.process_time() - begin
    machine = TARGET.build(spec, program)
    machine.advance(CYCLES, NO_STOPS, None)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return seconds, peak, len(program.payload.tables.tiles)


def run() -> list[Row]:
    """Measure each model and mode in a separate process."""
    rows: list[Row] = []
    for name in MODELS:
        for mode in ("parity", "true"):
            command = [sys.executable, "-m", "benchmarks.language", name, mode]
            output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            seconds, peak, tiles = json.loads(output.splitlines()[-1])
            title = f"{name}, {mode} mode, {tiles} tiles"
            rows.append(Row(f"{title}: peak memory of process", peak, "MiB", f"under {LIMIT_MIB}"))
            rows.append(Row(f"{title}: build the program, processor time", seconds, "s"))
    return rows


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], sys.argv[2])))
