import shutil
from pathlib import Path

import pytest

from npuviz.base.errors import FormatError, UsageError
from npuviz.trace.bundle.query import _CLOSED, query
from tests.trace import recordings
from tests.trace.bundle.saving import save_bundle
from tests.trace.recordings import random_events, record

ROWS = random_events(6, 40)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_bundle(record(ROWS).store, tmp_path_factory.mktemp("query") / "a.npuviz")


def test_slices_have_names(bundle: Path) -> None:
    found = query(bundle, "select track, kind, node, sum(cycles)::bigint as cycles from slices group by all")
    assert found.columns == ("track", "kind", "node", "cycles")
    expected: dict[tuple[str, str, str | None], int] = {}
    names = {kind.id: kind.name for kind in recordings.SCHEMA.kinds}
    for track in recordings.INTERVAL_TRACKS:
        for start, end, kind, instruction in recordings.intervals_of(ROWS, track):
            node = f"node {instruction % recordings.NUM_NODES}" if instruction >= 0 else None
            key = (recordings.SCHEMA.tracks[track].name, names[kind], node)
            expected[key] = expected.get(key, 0) + end - start
    assert {row[:3]: row[3] for row in found.rows} == expected


@pytest.mark.parametrize(
    ("table", "count"),
    [
        ("counters", len(recordings.COUNTER_TRACKS) * 40),
        ("samples", len(recordings.COUNTER_TRACKS) * 40),
        ("flows", 40),
        ("lifetimes", 40),
        ("residence where memory = 'SPAD'", 20),
        ("tracks", 7),
        ("kinds", 4),
        ("nodes", 7),
        ("tensors", 3),
        ("memories", 2),
    ],
)
def test_every_table_is_there(bundle: Path, table: str, count: int) -> None:
    assert query(bundle, f"select count(*) from {table}").rows == [(count,)]


def test_a_zip_and_an_empty_bundle_answer_too(bundle: Path, tmp_path: Path) -> None:
    archive = shutil.make_archive(str(tmp_path / "sent"), "zip", bundle)
    sql = "select count(*), sum(cycles)::bigint from slices"
    assert query(archive, sql).rows == query(bundle, sql).rows
    empty = save_bundle(record(random_events(0, 0)).store, tmp_path / "empty.npuviz")
    assert query(empty, "select count(*) from slices").rows == [(0,)]


@pytest.mark.parametrize(
    "sql", ["selec 1", "select nothing from slices", "select * from elsewhere", "", "--"]
)
def test_wrong_sql_is_one_line(bundle: Path, sql: str) -> None:
    with pytest.raises(UsageError) as failure:
        query(bundle, sql)
    assert "\n" not in str(failure.value)
    assert str(failure.value).startswith("query: ")


def test_a_damaged_bundle_is_a_format_error(bundle: Path, tmp_path: Path) -> None:
    copy = tmp_path / "damaged.npuviz"
    shutil.copytree(bundle, copy)
    part = next(copy.glob("intervals*"))
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(data)
    with pytest.raises(FormatError, match="checksum"):
        query(copy, "select 1")
    with pytest.raises(FormatError):
        query(tmp_path / "none", "select 1")


OUTSIDE = (
    "copy slices to '{out}'",
    "copy (select 1) to '{out}' (format csv)",
    "copy slices from '{secret}'",
    "export database '{folder}'",
    "attach '{out}' as other",
    "select * from read_text('{secret}')",
    "select * from read_blob('{secret}')",
    "select * from read_csv('{secret}')",
    "select * from '{secret}'",
    "select * from glob('{folder}/*')",
    "select * from read_parquet('{folder}/*.parquet')",
    "install httpfs",
    "load httpfs",
    "select * from 'https://example.org/x.csv'",
    "set enable_external_access = true",
    "set lock_configuration = false",
    "reset enable_external_access",
    "pragma memory_limit='100GB'",
    "set temp_directory = '{folder}'",
    "select * from bundle",
    "select getenv('HOME')",
)


@pytest.mark.parametrize("sql", OUTSIDE)
def test_a_query_reaches_nothing_but_the_bundle(bundle: Path, tmp_path: Path, sql: str) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("the,secret\n1,2\n")
    places = {"out": tmp_path / "out", "secret": secret, "folder": tmp_path / "folder"}
    before = set(tmp_path.rglob("*"))
    with pytest.raises(UsageError) as failure:
        query(bundle, sql.format(**places))
    assert "\n" not in str(failure.value)
    assert "1,2" not in str(failure.value)
    assert set(tmp_path.rglob("*")) == before
    assert secret.read_text() == "the,secret\n1,2\n"


def test_unsafe_queries_may_write(bundle: Path, tmp_path: Path) -> None:
    query(bundle, f"copy (select 7 as x) to '{tmp_path / 'out.csv'}'", is_unsafe=True)
    assert (tmp_path / "out.csv").read_text().split() == ["x", "7"]


def test_a_query_without_an_end_is_ended(bundle: Path) -> None:
    endless = "with recursive t(n) as (select 1 union all select n + 1 from t) select count(*) from t"
    with pytest.raises(UsageError, match="ended after 1 s"):
        query(bundle, endless, max_seconds=1.0)


def test_a_query_of_any_size_ends_with_one_line(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The rule is the same for every limit, and a small one is reached soon.
    monkeypatch.setitem(_CLOSED, "memory_limit", "256MiB")
    with pytest.raises(UsageError):
        query(bundle, "select string_agg(repeat('x', 1000000), '') from range(1000000)", max_seconds=60)


@pytest.mark.parametrize(
    "name", ["run*.npuviz", "run[0-9].npuviz", "run?.npuviz", "run'.npuviz", 'run".npuviz']
)
def test_names_with_patterns_do_not_reach_siblings(bundle: Path, tmp_path: Path, name: str) -> None:
    for sibling in ("run1.npuviz", "run2.npuviz"):
        shutil.copytree(bundle, tmp_path / sibling)
    shutil.copytree(bundle, tmp_path / name)
    sql = "select count(*) from slices"
    assert query(tmp_path / name, sql).rows == query(bundle, sql).rows


def test_a_part_that_is_a_link_is_refused(bundle: Path, tmp_path: Path) -> None:
    copy = tmp_path / "linked.npuviz"
    shutil.copytree(bundle, copy)
    part = next(copy.glob("intervals*"))
    moved = tmp_path / "elsewhere.parquet"
    part.rename(moved)
    part.symlink_to(moved)
    with pytest.raises(FormatError, match="a link to somewhere else"):
        query(copy, "select 1")
