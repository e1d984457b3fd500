"""Small files of people: descriptions of hardware, memories and networks, plans, settings, tables."""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

from npuviz.formats.layer_times import read_layer_times
from npuviz.formats.onnxim.booksim import read_booksim_config
from npuviz.formats.onnxim.hardware import read_config
from npuviz.formats.onnxim.mapping import read_mapping
from npuviz.formats.onnxim.ramulator import read_ramulator
from npuviz.formats.onnxim.workloads import read_language_model, read_model_list, read_trace
from npuviz.targets.neuroncore.spec import make_spec as neuron_spec
from npuviz.targets.rk3588.spec import make_spec as rknn_spec
from npuviz.targets.systolic.compiler.tiling.choices import read_choices
from npuviz.targets.systolic.hardware.dram import read_device
from npuviz.targets.systolic.spec import make_spec as systolic_spec
from npuviz.targets.wavelet.spec import make_spec as wavelet_spec
from npuviz.workbench import recent, trust
from npuviz.workbench.headless.neff_manifest import manifest_object, read_manifest
from npuviz.workbench.resources import sample_models_path
from npuviz.workbench.settings import Settings
from npuviz.workbench.sweep.plan import read_plan
from npuviz.workbench.sweep.results import results_file
from tests.formats.neff.cases import small_neff
from tests.fuzz.mutations import change_bytes, change_json, change_text

SUFFIX = ".kind"
SHARE = 900
_DATA = Path(__file__).parents[2] / "data" / "onnxim"
_SETTINGS = {
    "recent_files": ["a.onnx", {"path": "b.onnx", "target": "systolic", "settings": {"cores": "2"}}],
    "trusted": ["00"],
    "layout": {"name": "x"},
    "theme": "dark",
}


def _settings(path: Path) -> object:
    kept = Settings(path)
    trust.is_trusted(kept, path)
    return recent.recent_files(kept)


_READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "neuron": (".json", lambda path: neuron_spec("", path, {})),
    "rknn": (".json", lambda path: rknn_spec("", path, {})),
    "wafer": (".json", lambda path: wavelet_spec("", path, {})),
    "systolic": (".json", lambda path: systolic_spec("", path, {})),
    "config": (".json", read_config),
    "list": (".json", read_model_list),
    "language": (".json", read_language_model),
    "trace": (".csv", read_trace),
    "mapping": (".mapping", read_mapping),
    "choices": (".json", read_choices),
    "yaml": (".yaml", read_ramulator),
    "device": (".cfg", lambda path: read_device(path, is_exact=False)),
    "booksim": (".icnt", read_booksim_config),
    "plan": (".toml", read_plan),
    "manifest": (".json", read_manifest),
    "times": (".csv", read_layer_times),
    "settings": (".json", _settings),
    "results": (".parquet", results_file),
}


def seeds() -> list[bytes]:
    """`KIND\\n` and a file of the kind, for each."""
    configs = _DATA / "configs"
    files = {
        "systolic": [sample_models_path() / "systolic_2x16x16.json"],
        "config": sorted(configs.glob("*.json"))[::3],
        "list": sorted((_DATA / "model_lists").glob("*.json"))[:4],
        "language": [_DATA / "models" / "language_models" / "opt-125m.json"],
        "trace": [_DATA / "traces" / "input.csv"],
        "mapping": [_DATA / "resnet18.mapping"],
        "yaml": sorted((configs / "ramulator2_configs").glob("*.yaml")),
        "device": sorted((configs / "ramulator_configs").glob("*.cfg")),
        "booksim": sorted((configs / "booksim2_configs").glob("*.icnt"))[:2],
        "plan": [sample_models_path() / "array_sweep.toml"],
    }
    found = [(kind, path.read_bytes()[:4096]) for kind, paths in files.items() for path in paths]
    found += [
        ("neuron", b'{"preset": "trn2", "dma_latency": 3}'),
        ("rknn", b'{"preset": "rk3588", "npu_mhz": 1000}'),
        ("wafer", b'{"preset": "wse3", "fabric": "8x3"}'),
        (
            "choices",
            b'{"npuviz_tilings": [{"problem": [1, 2, 3], "sizes": [4, 5, 6], "assignment": "blocked"}]}',
        ),
        ("settings", json.dumps(_SETTINGS).encode()),
        ("times", b"# measured\nname,time_us\nconv1,12.5\nconv2,7\n"),
        ("manifest", json.dumps(manifest_object(small_neff())).encode()),
        ("results", b"PAR1" + bytes(40) + b"PAR1"),
    ]
    return [kind.encode() + b"\n" + data for kind, data in found]


def mutate(data: bytes, rng: Random) -> bytes:
    """Change values of JSON, words of the others, seldom the kind."""
    kind, _, content = data.partition(b"\n")
    if rng.random() < 0.03:
        kind = rng.choice(list(_READERS)).encode()
    if content[:1] in b"{[" and rng.random() < 0.8:
        content = change_json(content, rng)
    elif rng.random() < 0.9:
        content = change_text(content.decode(errors="replace"), rng).encode(errors="replace")
    else:
        content = change_bytes(content, rng)
    return kind + b"\n" + content


def attempt(path: Path) -> object:
    """Read it as what its first line says."""
    kind, _, content = path.read_bytes().partition(b"\n")
    suffix, read = _READERS.get(kind.decode(errors="replace"), _READERS["config"])
    file = path.with_name(f"description{suffix}")
    file.write_bytes(content)
    return read(file)
