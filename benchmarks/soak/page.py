"""Writes docs/reliability.md from the results of the parts of the soak."""

from typing import Any

_HEAD = """# Reliability

What npuviz was put through, and how often it ended as it must. `make soak` repeats it, `make soak PART=kill`
a part; it writes this page. What it found was mended and has a test of its own in `make check`, unless a
table shows that it is still there.

* **kill -9**: an earlier bundle is untouched, what was being written opens as the remains of a run or is
  refused with one line, nothing else appears or vanishes, and the next run writes the same bytes as ever.
* **Conditions**: exit code 2 and one line where something cannot be written; nothing half written is left.
* **Containers**: names that lead out of a container, links, pipes, devices, bombs, sizes that are not true:
  one line and exit code 2, or the container's own contents; nothing of a file beside it, in 20 s, 12 GiB.
* **Ctrl-C**: exit code 130 and one line, or the end of the run if that came first.
* **Caches**: compiled kernels that are missing, damaged or not writable cost time and change no result.
* **Cycles, commands**: late as much memory, as many threads and open files as early, or fewer; digests equal;
  no exception.
"""
_TITLES = {
    "kill": "kill -9",
    "conditions": "Conditions",
    "containers": "Containers that lie",
    "interrupts": "Ctrl-C",
    "caches": "Kernel caches and first starts",
    "cycles": "Opening and closing",
    "commands": "Debugger commands",
}


def page(parts: dict[str, Any]) -> str:
    """Return the text of the page. parts  as in measured.json."""
    lines = [_HEAD]
    for part, found in parts.items():
        lines += [
            f"## {_TITLES[part]}",
            "",
            f"Measured on {found['date']}, in {found['minutes']:g} minutes.",
            "",
            "| What | Tried | As it must | Figures |",
            "|---|---:|---:|---|",
            *(_row(row) for row in found["rows"]),
            "",
        ]
        faults = [fault for row in found["rows"] for fault in row["faults"]]
        if faults:
            lines += ["Left to mend:", "", *(f"* `{fault[:200]}`" for fault in faults), ""]
    return "\n".join(lines).rstrip() + "\n"


def _row(row: dict[str, Any]) -> str:
    return f"| {row['what']} | {row['tried']} | {row['good']} | {row['figures']} |"
