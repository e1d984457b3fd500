# Candidates of a search, as benchmarks.nki_traces reads them.
from pathlib import Path

from benchmarks.nki_traces import candidates

TRACE = """CodeCandidate(parent=CodeCandidate(parent=None,
plan=None,
code='''first''',
score=2.5,
spad_acc_stats=[]),
plan='''raise SystemExit''',
code='''second''',
score=1.25,
code_gen_model=exit())
"""


def test_candidates_are_read_first_one_first_and_nothing_is_run(tmp_path: Path) -> None:
    path = tmp_path / "a_trace.py"
    path.write_text(TRACE)
    assert candidates(path) == [(2.5, "first"), (1.25, "second")]
