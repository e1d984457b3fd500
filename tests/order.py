"""The order of test files: long ones come before short ones, so that all workers end together."""

from collections import Counter
from typing import Any

SECONDS = {
    "tests/base/test_collection.py": 6,
    "tests/base/test_late_module.py": 4,
    "tests/cli/test_csl_hosts.py": 12,
    "tests/cli/test_shot.py": 10,
    "tests/contract/test_causes.py": 52,
    "tests/contract/test_first_start.py": 8,
    "tests/contract/test_races.py": 5,
    "tests/fuzz/test_corpus.py": 13,
    "tests/fuzz/test_harness.py": 11,
    "tests/protocols/test_dap.py": 8,
    "tests/protocols/test_mcp.py": 27,
    "tests/sim/dram/test_command.py": 17,
    "tests/sim/network/test_flit_network.py": 10,
    "tests/targets/neuroncore/kernels/test_differential.py": 26,
    "tests/targets/neuroncore/nki/test_documented.py": 7,
    "tests/targets/neuroncore/nki/test_files.py": 6,
    "tests/targets/neuroncore/values/test_engine.py": 6,
    "tests/targets/wavelet/kernels/test_bands.py": 22,
    "tests/targets/wavelet/kernels/test_twins.py": 5,
    "tests/test_onnx_backend.py": 6,
    "tests/testing/test_plugin.py": 24,
    "tests/trace/bundle/test_bundle.py": 17,
    "tests/ui/compare/test_panel.py": 10,
    "tests/ui/dialogs/test_run_on.py": 12,
    "tests/ui/kit/test_columns.py": 11,
    "tests/ui/kit/test_thing_menu.py": 17,
    "tests/ui/shell/commands/test_session.py": 11,
    "tests/ui/shell/test_docks.py": 20,
    "tests/ui/shell/test_focus_order.py": 12,
    "tests/ui/shell/test_main_window.py": 20,
    "tests/ui/shell/test_palette.py": 10,
    "tests/ui/shell/test_real_keys.py": 15,
    "tests/ui/timeline/test_panel.py": 14,
    "tests/workbench/sweep/test_dispatch.py": 9,
}
"""Processor time of files whose few tests take long (measured); others count as many as they have tests."""


def file_of(item: Any) -> str:
    """The file of a test, as SECONDS names it."""
    return item.nodeid.partition("::")[0]


def by_length(items: list[Any]) -> list[Any]:
    """The tests, those of the longest files first; tests of a file stay together and in their order.

    Files of many tests remain the first: they compile the kernels that those in SECONDS wait for.
    """
    counts = Counter(map(file_of, items))
    ranks = {name: (-max(count, SECONDS.get(name, 0)), name) for name, count in counts.items()}
    return sorted(items, key=lambda item: ranks[file_of(item)])
