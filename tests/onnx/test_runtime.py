"""ONNX Runtime leaves nothing behind."""

import os
import subprocess
import sys
from pathlib import Path

CODE = """
from npuviz.onnx.runtime import onnxruntime
onnxruntime.InferenceSession({model!r}, providers=["CPUExecutionProvider"])
"""


def test_nothing_is_written_into_the_home(tmp_path: Path) -> None:
    model = Path(__file__).parents[2] / "sample_models" / "tiny_cnn.onnx"
    dropped = ("ORT_", "XDG_")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(dropped)}
    subprocess.run(
        [sys.executable, "-c", CODE.format(model=str(model))], env={**kept, "HOME": str(tmp_path)}, check=True
    )
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
