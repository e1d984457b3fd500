"""Runs unchanged CSL programs of other authors, and counts how many run and how many pass their own check.

    python -m benchmarks.csl_corpus FOLDER ... [--only TEXT] [--timeout SECONDS] [--verbose] [--report FILE]

Each FOLDER is a repository, or holds repositories as FOLDER/OWNER+NAME. Every `commands*.sh` of it, or else
`run.sh`, is run in a copy, or the commands that `benchmarks/csl_recipes.py` lists for the repository. A
program is "right" when its host program checks values and ends with exit code 0 and without a line that says
FAIL, "ran" when it checks nothing, "wrong" when its check fails, "failed" for the rest, each with its line;
"cannot" if no simulator can run it unchanged. A report keeps its lines about repositories that were not tried
again.
"""

import argparse
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.csl_recipes import INCOMPLETE, RECIPES, Recipe
from npuviz.targets.wavelet.host import coverage
from npuviz.targets.wavelet.load.loader import (
    SCRIPT_PATTERN,
    ScriptRun,
    default_script,
    expand_macros,
    run_command,
    scripts_of,
)

RIGHT, RAN, WRONG, FAILED, CANNOT = "right", "ran", "wrong", "failed", "cannot"
_CHECKS = re.compile(
    r"\bassert\b|assert_|allclose|array_equal|SUCCESS|PASS|\bmismatch|sys\.exit\(1\)|max.{0,12}(err|diff)",
    re.IGNORECASE,
)
_SAYS_WRONG = re.compile(r"\bFAIL(ED|URE)?\b(?![^\n]*\b0\b)|\bMISMATCH\b|\bINCORRECT\b")


@dataclass(frozen=True)
class Try:
    """Result of one program; `line` says why it is not right."""

    repository: str
    program: str
    kind: str
    seconds: float
    line: str


def repositories(folders: Sequence[Path]) -> list[Path]:
    """Return the repositories of the folders: the folders OWNER+NAME in them, or themselves."""
    found: list[Path] = []
    for folder in folders:
        inner = sorted(path for path in folder.iterdir() if "+" in path.name and path.is_dir())
        found += inner or [folder]
    return found


def recipes_of(repository: Path) -> list[Recipe]:
    """Return the recipes for the programs of a repository: those listed for it, else its command scripts."""
    for name in (repository.name, repository.name.rpartition("+")[2]):
        if name in RECIPES:
            return list(RECIPES[name])
    scripts = set(repository.rglob(SCRIPT_PATTERN))
    for folder in {path.parent for path in repository.rglob("*.csl")}:
        found = scripts_of(folder)
        scripts |= {default_script(found)} if found and not scripts.intersection(found) else set()
    return [
        Recipe(str(script.relative_to(repository)), str(script.parent.relative_to(repository)), script.name)
        for script in sorted(scripts)
    ]


def attempt(repository: Path, recipe: Recipe, seconds: float) -> tuple[Try, str]:
    """Run one program in a copy of its repository. Returns the result and the output."""
    for end, reason in INCOMPLETE.items():
        if recipe.label.endswith(end):
            return Try(repository.name, recipe.label, CANNOT, 0.0, reason), ""
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="npuviz-corpus-") as scratch:
        copy = Path(scratch) / repository.name.rpartition("+")[2]
        shutil.copytree(repository, copy, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        command = recipe.command
        # A longer text than a file name can be is a command.
        if len(command) < 256 and (copy / recipe.folder / command).is_file():
            expand_macros(copy / recipe.folder / command)
            command = f"bash {command}"
        ran = run_command(command, copy / recipe.folder, Path(scratch), seconds)
        kind, line = judge(ran, recipe.compares and _checks(copy / recipe.folder))
    return Try(repository.name, recipe.label, kind, time.perf_counter() - begin, line), ran.output


def _checks(folder: Path) -> bool:
    """Return whether a host program in the script's folder compares values."""
    return any(_CHECKS.search(path.read_text(errors="replace")) for path in folder.rglob("*.py"))


def judge(ran: ScriptRun, checks: bool) -> tuple[str, str]:
    """Return the kind of result, and the line of output that says why."""
    kind, line = coverage.judge(ran)
    wrong = _SAYS_WRONG.search(ran.output)
    if kind == coverage.PASS and wrong is not None:
        start = ran.output.rfind("\n", 0, wrong.start()) + 1
        return WRONG, ran.output[start:].partition("\n")[0].strip()
    if kind == coverage.PASS:
        return (RIGHT if checks else RAN), ""
    if kind == coverage.TIMEOUT:
        return FAILED, f"not done in time; {line}"
    return (WRONG if kind == coverage.WRONG else FAILED), line


def table(tries: Sequence[Try]) -> str:
    """Write a table with a row per repository, then a line for each program with a reason."""
    kinds = (RIGHT, RAN, WRONG, FAILED, CANNOT)
    lines = ["| repository | " + " | ".join(kinds) + " |", "| --- |" + " ---: |" * len(kinds)]
    for name in [*dict.fromkeys(one.repository for one in tries), "together"]:
        counts = Counter(one.kind for one in tries if name in (one.repository, "together"))
        lines.append(f"| {name} | " + " | ".join(str(counts[kind]) for kind in kinds) + " |")
    rest = [f"{one.kind}: {one.repository}/{one.program}: {one.line}" for one in tries if one.line]
    return "\n".join([*lines, "", *rest])


_REPORT = """# CSL of other authors

Written by `python -m benchmarks.csl_corpus FOLDER .. --report docs/csl-corpus.md`: public repositories as
they are, in the sizes of `benchmarks/csl_recipes.py`. `right`: the host program compares values and is
satisfied; `ran`: it ran to its end and compares nothing; `wrong`: its comparison fails; `failed`: refused,
stopped or not done in time; `cannot`: what no simulator runs as it is. Below stands why, line by line.
"""


def report(path: Path, tries: Sequence[Try]) -> str:
    """Write the text of a report: rows and reasons of these results, and those of other repositories in the
    old file."""
    old = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    tried = {one.repository for one in tries}
    rows = {name: line for line in table(tries).splitlines() if (name := _first_cell(line)) in tried}
    kept = {name: line for line in old if "+" in (name := _first_cell(line)) and name not in tried}
    rows = dict(sorted({**kept, **rows}.items()))
    counts = [[int(cell) for cell in line.split("|")[2:-1]] for line in rows.values()]
    total = " | ".join(str(sum(column)) for column in zip(*counts, strict=True))
    reasons = [line for line in old if line.startswith("- ") and line[2:].split("/")[0] not in tried]
    reasons += [f"- {one.repository}/{one.program}: {one.kind}: {one.line}" for one in tries if one.line]
    head = table(()).splitlines()[:2]
    return "\n".join([_REPORT, *head, *rows.values(), f"| together | {total} |", "", *sorted(reasons), ""])


def _first_cell(line: str) -> str:
    return line.split("|")[1].strip() if line.startswith("|") else ""


def main(arguments: Sequence[str]) -> int:
    """Run the command. Returns 0 if no program is wrong or failed, else 1."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.csl_corpus", description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--only", default="", help="a regular expression for REPOSITORY/PROGRAM")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for each program")
    parser.add_argument("--verbose", action="store_true", help="print what the programs print")
    parser.add_argument("--report", type=Path, help="a page to write or to bring up to date")
    options = parser.parse_args(arguments)
    tries: list[Try] = []
    for repository in repositories(options.folders):
        for recipe in recipes_of(repository):
            if not re.search(options.only, f"{repository.name}/{recipe.label}"):
                continue
            one, output = attempt(repository, recipe, options.timeout)
            tries.append(one)
            place = f"{one.repository}/{one.program}"
            print(f"{one.kind:6} {one.seconds:6.1f} s  {place}  {one.line}", flush=True)
            if options.verbose:
                print(output[-6000:], flush=True)
    print(table(tries))
    if options.report is not None:
        options.report.write_text(report(options.report, tries), encoding="utf-8")
    return 0 if all(one.kind in (RIGHT, RAN, CANNOT) for one in tries) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
