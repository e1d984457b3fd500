import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from npuviz.base.errors import FormatError, UnknownTarget, UsageError
from npuviz.workbench.choosing import choose_target, find_file
from npuviz.workbench.headless.run import RunOptions, run_model
from npuviz.workbench.opening import OpenOptions, is_bundle, open_file
from tests.workbench.toy_registry import toy_file


def test_a_model_becomes_a_session(tmp_path: Path) -> None:
    opened = open_file(toy_file(tmp_path), OpenOptions(preset="large"))
    assert opened.session is not None
    assert opened.session is not None
    assert opened.preset == "large"
    assert opened.session.cycle == 0
    assert opened.reader is opened.session.trace
    assert set(opened.seconds) == {"load", "compile", "warm_up"}
    opened.close()


def test_getting_ready_loads_the_readers_and_not_what_is_seldom_needed() -> None:
    script = (
        "import sys; from npuviz.workbench.opening import get_ready; get_ready(); "
        "print('onnxscript' in sys.modules, 'numba' in sys.modules, 'sympy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True", "False"]


def test_recording_nothing_gives_no_reader(tmp_path: Path) -> None:
    opened = open_file(toy_file(tmp_path), OpenOptions(is_recording=False))
    assert opened.reader is None
    assert opened.session is not None
    opened.session.run()
    assert opened.session.is_finished


def test_closing_without_publishing_leaves_nothing(tmp_path: Path) -> None:
    opened = open_file(toy_file(tmp_path), OpenOptions(record=tmp_path / "bundle"))
    opened.close()
    opened.close()
    assert [path.name for path in tmp_path.iterdir()] == ["small.toy"]


def test_publishing_gives_a_bundle_that_opens(tmp_path: Path) -> None:
    opened = open_file(toy_file(tmp_path), OpenOptions(record=tmp_path / "bundle"))
    assert opened.session is not None
    opened.session.run()
    assert opened.publish() == tmp_path / "bundle"
    again = open_file(tmp_path / "bundle")
    assert again.session is None
    assert again.reader is not None
    assert again.reader.end_cycle == opened.session.cycle


def test_a_zipped_bundle_is_a_bundle_and_a_model_is_not(tmp_path: Path) -> None:
    model = toy_file(tmp_path)
    run_model(model, RunOptions(OpenOptions(record=tmp_path / "bundle")))
    packed = tmp_path / "bundle.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for part in (tmp_path / "bundle").iterdir():
            archive.write(part, f"bundle/{part.name}")
    assert is_bundle(packed)
    assert is_bundle(tmp_path / "bundle")
    assert not is_bundle(model)
    assert not is_bundle(tmp_path)
    assert not is_bundle(tmp_path / "missing")


def test_the_target_is_found_by_file_or_by_name(tmp_path: Path) -> None:
    path = toy_file(tmp_path)
    assert choose_target(path).id == "toy"
    with pytest.raises(UnknownTarget, match="known: toy"):
        choose_target(path, "other")
    strange = tmp_path / "a.xyz"
    strange.write_text("?")
    with pytest.raises(UnknownTarget, match=r"expected \*\.toy"):
        choose_target(strange)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "found an empty file"),
        (b"a\xff\xfe", "found other bytes, which are no text in UTF-8"),
        (b"text \0", "found other bytes, which are no text in UTF-8"),
        (b"x" + "\u00e9".encode() * 4000, "found another text"),
    ],
)
def test_a_file_that_no_target_takes_is_told_in_one_line(tmp_path: Path, content: bytes, found: str) -> None:
    path = tmp_path / "a.toy"
    path.write_bytes(content)
    with pytest.raises(UnknownTarget, match=found) as refused:
        choose_target(path)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < len(str(path)) + 160


def test_missing_files_and_bad_contents(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        open_file(tmp_path / "missing.toy")
    with pytest.raises(UsageError, match="no such file or sample"):
        find_file(str(tmp_path / "missing.toy"))
    with pytest.raises(FormatError):
        open_file(toy_file(tmp_path, '{"blocks": 0}'))


def test_sample_models_are_found_by_name() -> None:
    assert find_file("tiny_cnn").name == "tiny_cnn.onnx"
    assert find_file("tiny_cnn.onnx").is_file()
