import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuviz.base.errors import ExportError, FormatError
from npuviz.trace.bundle import bundle as bundle_module
from npuviz.trace.bundle import publish
from npuviz.trace.bundle.bundle import BundleWriter, open_bundle
from npuviz.trace.bundle.manifest import FORMAT_VERSION
from npuviz.trace.reader import TraceReader
from npuviz.trace.recorder import Recorder
from tests.sweeps import examples, quick
from tests.trace.bundle.saving import save_bundle
from tests.trace.recordings import SCHEMA, Instructions, random_events, record
from tests.trace.test_store import contents


def write(path: Path, rows: np.ndarray, page_rows: int = 1 << 20, chunks: int = 3) -> Recorder:
    recorder = Recorder(SCHEMA, Instructions(), BundleWriter(path, SCHEMA, page_rows=page_rows))
    record(rows, chunks, recorder)
    recorder.close()
    return recorder


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    write(tmp_path / "a.npuviz", random_events(6, 60), page_rows=400)
    return tmp_path / "a.npuviz"


@pytest.mark.parametrize("page_rows", [50, 333, 1 << 20])
def test_a_bundle_holds_what_was_recorded(tmp_path: Path, page_rows: int) -> None:
    rows = random_events(5, 150)
    recorder = write(tmp_path / "run.npuviz", rows, page_rows)
    reader = open_bundle(tmp_path / "run.npuviz")
    assert reader.is_complete
    assert reader.schema == SCHEMA
    assert contents(reader) == contents(TraceReader(recorder.store))
    assert [path.name for path in tmp_path.iterdir()] == ["run.npuviz"]


def test_a_store_can_be_saved_later(tmp_path: Path) -> None:
    store = record(random_events(9, 120)).store
    store.mark(100_000)
    save_bundle(store, tmp_path / "saved.npuviz", {"summary": {"cycles": 7}})
    reader = open_bundle(tmp_path / "saved.npuviz")
    assert contents(reader) == contents(TraceReader(store))
    assert reader.model == {"summary": {"cycles": 7}}
    assert reader.end_cycle == 100_000


@examples(4, 12)
@given(st.integers(0, 500), st.integers(0, 500), st.sampled_from([64, 1 << 20]))
def test_history_can_be_cut_in_a_bundle(seed: int, cycle: int, page_rows: int) -> None:
    import tempfile

    rows = random_events(seed, 60)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cut.npuviz"
        recorder = Recorder(SCHEMA, Instructions(), BundleWriter(path, SCHEMA, page_rows=page_rows))
        record(rows, 2, recorder)
        recorder.truncate(cycle)
        record(rows, 2, recorder)  # everything again: what is known must be dropped
        recorder.close()
        assert contents(open_bundle(path)) == contents(TraceReader(record(rows).store))


def test_a_zip_of_a_bundle_opens(bundle: Path, tmp_path: Path) -> None:
    archive = shutil.make_archive(str(tmp_path / "sent"), "zip", bundle.parent, bundle.name)
    assert contents(open_bundle(archive)) == contents(open_bundle(bundle))


def test_two_manifests_in_a_zip_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "two.zip", "w") as archive:
        archive.writestr("a/manifest.json", "{}")
        archive.writestr("b/manifest.json", "{}")
    with pytest.raises(FormatError, match="one manifest"):
        open_bundle(tmp_path / "two.zip")


# -- an earlier bundle of the same name -----------------------------------------------------------


@pytest.mark.parametrize("can_exchange", [True, False])
def test_an_earlier_bundle_stays_until_the_new_one_is_complete(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, can_exchange: bool
) -> None:
    if not can_exchange:
        monkeypatch.setattr(publish, "_exchange", lambda one, other: False)
    before = contents(open_bundle(bundle))
    writer = BundleWriter(bundle, SCHEMA)
    recorder = record(random_events(77, 10), 1, Recorder(SCHEMA, Instructions(), writer))
    assert contents(open_bundle(bundle)) == before
    recorder.close()
    assert contents(open_bundle(bundle)) == contents(TraceReader(recorder.store))
    assert len(list(bundle.parent.iterdir())) == 1


def test_giving_up_leaves_nothing_and_keeps_the_earlier_bundle(bundle: Path) -> None:
    before = contents(open_bundle(bundle))
    with BundleWriter(bundle, SCHEMA) as writer:
        record(random_events(1, 30), 1, Recorder(SCHEMA, Instructions(), writer))
    assert contents(open_bundle(bundle)) == before
    assert len(list(bundle.parent.iterdir())) == 1


def test_a_rename_that_fails_brings_the_earlier_bundle_back(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish, "_exchange", lambda one, other: False)
    before = contents(open_bundle(bundle))
    real = os.rename

    def fail(source: Path, place: Path) -> None:
        if ".partial-" in str(source):
            raise OSError(5, "Input/output error")
        real(source, place)

    monkeypatch.setattr(publish.os, "rename", fail)
    writer = BundleWriter(bundle, SCHEMA)
    recorder = record(random_events(1, 30), 1, Recorder(SCHEMA, Instructions(), writer))
    with pytest.raises(ExportError, match="Input/output error"):
        recorder.close()
    assert contents(open_bundle(bundle)) == before
    assert len(list(bundle.parent.iterdir())) == 1


@pytest.mark.parametrize("make", [Path.mkdir, lambda path: path.write_text("notes")])
def test_what_is_no_bundle_is_not_overwritten(tmp_path: Path, make: Callable[[Path], object]) -> None:
    make(tmp_path / "thesis")
    with pytest.raises(ExportError, match="choose another name"):
        BundleWriter(tmp_path / "thesis", SCHEMA)


# -- a run that is killed, a disk that is full ----------------------------------------------------

KILLED = """
    import os, signal, sys
    from tests.trace.recordings import SCHEMA, Instructions, random_events, record
    from npuviz.trace.bundle.bundle import BundleWriter
    from npuviz.trace.recorder import Recorder

    writer = BundleWriter(sys.argv[1], SCHEMA, page_rows=100)
    recorder = Recorder(SCHEMA, Instructions(), writer)
    rows = random_events(6, 60)
    record(rows[:350], 7, recorder)
    writer._jobs.join()
    print(writer.folder, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_run_loses_only_the_page_under_way(bundle: Path) -> None:
    before = contents(open_bundle(bundle))
    command = [sys.executable, "-c", textwrap.dedent(KILLED), str(bundle)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == -signal.SIGKILL, result.stderr
    remains = open_bundle(result.stdout.strip())
    assert not remains.is_complete
    rows = random_events(6, 60)[:300]
    assert contents(remains)[2:] == contents(TraceReader(record(rows).store))[2:]
    assert contents(open_bundle(bundle)) == before
    shutil.rmtree(bundle)
    with pytest.raises(FormatError, match=r"unfinished run left .*partial-"):
        open_bundle(bundle)


class FullDisk:
    """A file that takes `room` bytes in all and then says that the disk is full."""

    room = 0

    def __init__(self, path: Path) -> None:
        self._file = open(path, "wb", buffering=0)  # noqa: SIM115

    def write(self, data: bytes) -> int:
        fits = data[: FullDisk.room]
        FullDisk.room -= len(fits)
        self._file.write(fits)
        if len(fits) < len(data):
            raise OSError(28, "No space left on device")
        return len(data)

    def __enter__(self) -> "FullDisk":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


@pytest.mark.parametrize("room", [0, 1, 100, 2500, 5000, 9000, 12000])
def test_a_full_disk_is_one_line_and_leaves_nothing(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    before = contents(open_bundle(bundle))
    FullDisk.room = room
    for module in ("npuviz.trace.bundle.bundle", "npuviz.trace.bundle.manifest"):
        monkeypatch.setattr(f"{module}.open", lambda path, mode: FullDisk(path), raising=False)
    with pytest.raises(ExportError, match="No space left on device") as failure:
        write(bundle, random_events(6, 200), page_rows=100, chunks=20)
    assert "\n" not in str(failure.value)
    monkeypatch.undo()
    assert contents(open_bundle(bundle)) == before
    assert len(list(bundle.parent.iterdir())) == 1


NOBODY = 65534


def test_a_folder_without_permission() -> None:
    """Root may write anywhere, so that root becomes nobody for the attempt."""
    user = os.geteuid()
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o555)
        try:
            if user == 0:
                os.seteuid(NOBODY)
            with pytest.raises(ExportError, match="Permission denied"):
                BundleWriter(Path(folder) / "a.npuviz", SCHEMA)
        finally:
            os.seteuid(user)


def test_a_parent_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ExportError, match="cannot write the trace"):
        BundleWriter(tmp_path / "file" / "a.npuviz", SCHEMA)


# -- damaged bundles ------------------------------------------------------------------------------


def read_everything(path: Path) -> list[object]:
    reader = open_bundle(path)
    assert isinstance(reader.model, dict)
    return contents(reader)


@quick("manifest.json", "flows")
@pytest.mark.parametrize("name", ["manifest.json", "intervals", "counters", "flows", "lifetimes"])
def test_truncation_at_every_byte(bundle: Path, name: str) -> None:
    path = next(bundle.glob(f"{name}*"))
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(FormatError) as failure:
            read_everything(bundle)
        assert "\n" not in str(failure.value)


@pytest.mark.parametrize("name", ["intervals", "lifetimes"])
def test_a_part_of_the_right_length_cut_short(bundle: Path, name: str) -> None:
    """Size and checksum agree with the manifest, the Parquet inside does not."""
    import zlib

    path = next(bundle.glob(f"{name}*"))
    data = path.read_bytes()
    manifest = json.loads((bundle / "manifest.json").read_text())
    entry = next(part for part in manifest["parts"] if part["file"] == path.name)
    for length in range(0, len(data), 37):
        path.write_bytes(data[:length])
        entry |= {"size_bytes": length, "crc32": zlib.crc32(data[:length])}
        (bundle / "manifest.json").write_text(json.dumps(manifest))
        with pytest.raises(FormatError):
            read_everything(bundle)


def test_flipped_bytes_of_a_part(bundle: Path) -> None:
    path = next(bundle.glob("intervals*"))
    data = bytearray(path.read_bytes())
    for place in range(0, len(data), 23):
        data[place] ^= 0x41
        path.write_bytes(data)
        with pytest.raises(FormatError, match="checksum"):
            read_everything(bundle)
        data[place] ^= 0x41


@examples(50, 150)
@given(st.data())
def test_an_altered_manifest_never_gives_another_exception(data: st.DataObject) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.npuviz"
        write(path, random_events(6, 4))
        manifest = json.loads((path / "manifest.json").read_text())
        holder, key = data.draw(st.sampled_from(places(manifest)))
        holder[key] = data.draw(
            st.one_of(
                st.none(),
                st.booleans(),
                st.integers(-(2**70), 2**70),
                st.sampled_from(["", "x", "../../etc/passwd", [], {}, [1], 0.5]),
            )
        )
        (path / "manifest.json").write_text(json.dumps(manifest))
        message = ""
        try:
            read_everything(path)
        except FormatError as error:
            message = str(error)
        assert "\n" not in message


def places(value: object) -> list[tuple[dict[str, object], str]]:
    """Every entry of every object in a JSON value."""
    if isinstance(value, list):
        return [place for one in value for place in places(one)]
    if isinstance(value, dict):
        return [(value, key) for key in value] + [place for one in value.values() for place in places(one)]
    return []


def alter(bundle: Path, **changes: object) -> None:
    manifest = json.loads((bundle / "manifest.json").read_text())
    (bundle / "manifest.json").write_text(json.dumps(manifest | changes))


def test_messages_say_what_to_do(bundle: Path, tmp_path: Path) -> None:
    alter(bundle, version=FORMAT_VERSION + 1)
    with pytest.raises(FormatError, match="newer npuviz"):
        open_bundle(bundle)
    alter(bundle, version=1, format="something")
    with pytest.raises(FormatError, match="not a trace bundle"):
        open_bundle(bundle)
    alter(bundle, format="npuviz-trace")
    next(bundle.glob("flows*")).unlink()
    with pytest.raises(FormatError, match="no such file"):
        open_bundle(bundle)
    with pytest.raises(FormatError, match="nothing there"):
        open_bundle(tmp_path / "none.npuviz")
    (tmp_path / "model.onnx").write_bytes(b"\x08\x07")
    with pytest.raises(FormatError, match="another kind of file"):
        open_bundle(tmp_path / "model.onnx")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FormatError, match="without it"):
        open_bundle(tmp_path / "empty")


@pytest.mark.parametrize("text", ["", "[", "[]", '"x"', "\x00"])
def test_a_broken_model_file(bundle: Path, text: str) -> None:
    (bundle / "model.json").write_text(text)
    with pytest.raises(FormatError, match=r"model\.json"):
        _ = open_bundle(bundle).model


def test_pages_wait_for_a_slow_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More pages than the queue takes: the recorder waits instead of growing without bound."""
    monkeypatch.setattr(bundle_module, "_WAITING_PAGES", 1)
    rows = random_events(11, 100)
    recorder = write(tmp_path / "slow.npuviz", rows, page_rows=20, chunks=50)
    assert contents(open_bundle(tmp_path / "slow.npuviz")) == contents(TraceReader(recorder.store))


def test_a_bundle_is_read_as_it_was_when_it_was_opened(tmp_path: Path) -> None:
    """A run that replaces it, or ends the one that is looked at, changes nothing that is shown."""
    place = tmp_path / "run.npuviz"
    first = write(place, random_events(5, 150), page_rows=50)
    replaced = open_bundle(place)
    writer = BundleWriter(place, SCHEMA, page_rows=50)
    recorder = Recorder(SCHEMA, Instructions(), writer)
    record(random_events(6, 90), 3, recorder)
    writer.set_model({"summary": {"cycles": 9}})
    partial = open_bundle(writer.folder)
    recorder.close()
    write(place, random_events(7, 10))
    (place / "model.json").write_text("{}")
    assert contents(replaced) == contents(TraceReader(first.store))
    assert replaced.model == {}
    assert partial.model == {"summary": {"cycles": 9}}
    partial.flows((0, 1 << 40))
    assert contents(open_bundle(place)) != contents(replaced)


def test_a_part_that_is_cut_after_opening_is_refused(bundle: Path) -> None:
    reader = open_bundle(bundle)
    part = next(bundle.glob("intervals-*.parquet"))
    os.truncate(part, 10)
    with pytest.raises(FormatError):
        contents(reader)


def test_a_writer_that_nobody_has_any_more_leaves_nothing(tmp_path: Path) -> None:
    """An interrupt came before anybody could abort it; a copy of the process removes nothing."""
    writer = BundleWriter(tmp_path / "run.npuviz", SCHEMA)
    pid = os.fork()
    if not pid:
        del writer
        os._exit(0)
    os.waitpid(pid, 0)
    assert len(list(tmp_path.iterdir())) == 1
    del writer
    assert list(tmp_path.iterdir()) == []


def test_giving_up_a_bundle_removes_all_of_it_when_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One interrupt comes while the folder is made, another while it is removed."""
    mkdir = Path.mkdir

    def slow_mkdir(self: Path, *given: object, **named: object) -> None:
        mkdir(self, *given, **named)  # pyright: ignore[reportArgumentType]
        if ".partial-" in self.name:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "mkdir", slow_mkdir)
        with pytest.raises(KeyboardInterrupt):
            BundleWriter(tmp_path / "run", SCHEMA)
    assert list(tmp_path.iterdir()) == []

    writer = BundleWriter(tmp_path / "run", SCHEMA)
    remove = os.unlink

    def slow_remove(*given: object, **named: object) -> None:
        signal.raise_signal(signal.SIGINT)
        remove(*given, **named)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(os, "unlink", slow_remove)
    with pytest.raises(KeyboardInterrupt):
        writer.abort()
    assert list(tmp_path.iterdir()) == []
