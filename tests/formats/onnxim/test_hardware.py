import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuviz.base.errors import FormatError
from npuviz.formats.onnxim.hardware import CHIP_KEYS, CORE_KEYS, parse_config, read_config

CONFIGS = Path(__file__).parents[2] / "data" / "onnxim" / "configs"
TPUV4 = CONFIGS / "systolic_ws_128x128_c4_simple_noc_tpuv4_dramsimple.json"


def tpuv4() -> dict[str, Any]:
    return json.loads(TPUV4.read_text())


def test_newer_schema() -> None:
    config, warnings = read_config(TPUV4)
    assert warnings == ()
    assert (config.num_cores, len(config.cores), config.core_freq) == (4, 4, 1000)
    core = config.cores[3]
    assert (core.core_width, core.core_height) == (128, 128)
    assert (core.spad_bytes, core.acc_bytes, core.vector_bytes) == (32 << 20, 4 << 20, 8192)
    assert (config.dram_type, config.dram_freq, config.dram_channels) == ("simple", 1200, 16)
    assert (config.icnt_injection_ports_per_core, config.precision, config.scheduler) == (16, 2, "simple")


def test_older_schema_gives_every_core_the_same_block() -> None:
    data = json.loads((CONFIGS / "test.json").read_text()) | {"num_cores": 3, "icnt_type": "booksim"}
    config, warnings = parse_config(data, "test.json")
    assert config.cores == (config.cores[0],) * 3
    assert (config.cores[0].spad_size, config.cores[0].accum_spad_size) == (448, 56)
    assert config.icnt_type == "booksim2"
    assert warnings == ("accum_spad_size is absent: assumed an eighth of spad_size",)
    assert config.cores[0].add_latency == 1


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.json")), ids=lambda path: path.stem)
def test_every_shipped_file(path: Path) -> None:
    config, _ = read_config(path)
    assert len(config.cores) == config.num_cores


def test_partition() -> None:
    config, warnings = read_config(CONFIGS / "systolic_ws_128x128_c4_simple_noc_tpuv4_partition_quad.json")
    assert config.partition == {0: 0, 1: 1, 2: 1, 3: 1}
    assert warnings == ()


def test_unknown_keys_are_named() -> None:
    data: dict[str, Any] = tpuv4() | {"dram_chanels": 3}
    data["core_config"]["core_1"]["colour"] = "red"
    _, warnings = parse_config(data, "x.json")
    assert "unknown key dram_chanels is ignored (did you mean dram_channels?)" in warnings
    assert "unknown key core_config.core_1.colour is ignored" in warnings


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_cores": 0}, "x.json, key num_cores: expected an integer from 1 to 4096, found 0"),
        ({"num_cores": 10**9}, "key num_cores: expected an integer from 1 to 4096, found 1000000000"),
        ({"core_freq": -1}, "key core_freq: expected an integer from 1 to 1000000, found -1"),
        ({"core_freq": "fast"}, 'key core_freq: expected an integer from 1 to 1000000, found "fast"'),
        ({"core_freq": True}, "found true"),
        ({"core_freq": 1.5}, "found 1.5"),
        ({"core_freq": None}, "found null"),
        ({"core_freq": [1]}, "found a list"),
        ({"dram_channels": 17}, "1 to 16, 32 or 64"),
        ({"dram_req_size": 48}, "a power of two"),
        ({"precision": 3}, "a power of two"),
        ({"dram_type": "magic"}, 'one of simple, ramulator, ramulator2, found "magic"'),
        ({"core_config": 3}, "key core_config: expected an object, found 3"),
        ({"num_cores": 5}, "key core_config.core_4: expected an object, found nothing"),
        ({"partition": {"core_0": "a"}}, "key partition.core_0"),
    ],
)
def test_wrong_values(change: dict[str, Any], message: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse_config(tpuv4() | change, "x.json")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_zero_wide_array() -> None:
    data = tpuv4()
    data["core_config"]["core_2"]["core_width"] = 0
    with pytest.raises(FormatError, match=r"key core_config\.core_2\.core_width.*found 0"):
        parse_config(data, "x.json")


def test_required_key_absent() -> None:
    data = tpuv4()
    del data["dram_freq"]
    with pytest.raises(FormatError, match="key dram_freq: expected it to be there"):
        parse_config(data, "x.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"num_cores": 1, "num_cores": 2}', "key 'num_cores': expected each key once"),
        ("[1, 2]", "expected a JSON object, found a list"),
        ("", "expected JSON"),
        ('{"num_cores": NaN}', "NaN is not a number of JSON"),
        ('{"a": ' + "[" * 100_000, "nested"),
        ('{"num_cores": ' + "9" * 5000 + "}", "expected JSON"),
    ],
)
def test_not_json(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(FormatError, match=message.replace("[", r"\[")):
        read_config(path)


def test_truncation_everywhere(tmp_path: Path) -> None:
    whole = (CONFIGS / "test.json").read_text()
    path = tmp_path / "x.json"
    for length in range(len(whole) - 1):
        path.write_text(whole[:length])
        with pytest.raises(FormatError):
            read_config(path)


def test_not_text_missing_and_huge(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    with pytest.raises(FormatError, match="no such file"):
        read_config(path)
    path.write_bytes(b"\xff\xfe{}")
    with pytest.raises(FormatError, match="UTF-8"):
        read_config(path)
    with path.open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(FormatError, match="at most 4 MiB"):
        read_config(path)


values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.integers(), max_size=2),
)


@given(key=st.sampled_from([*CHIP_KEYS, *CORE_KEYS, "partition", "core_config"]), value=values)
@settings(max_examples=200, deadline=None)
def test_any_value_is_a_config_or_a_format_error(key: str, value: object) -> None:
    data = json.loads((CONFIGS / "test.json").read_text())
    data[key] = value
    message = ""
    try:
        config, _ = parse_config(data, "x.json")
        assert len(config.cores) == config.num_cores
    except FormatError as error:
        message = str(error)
    assert "\n" not in message
