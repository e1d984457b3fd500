import pickle
from pathlib import Path

import pytest

from npuviz.base.errors import LONGEST_TEXT, ConditionError, FormatError, NpuvizError, SourceError, UsageError

LONG = "name " + "\x1b[31m\n" * 2000

ERRORS = [
    UsageError(LONG),
    FormatError(Path("a.neff"), field=LONG, expected="a name", found=LONG, hint=LONG),
    FormatError("a" * 5000, found="b"),
    SourceError("a.csl", 3, 4, LONG),
    ConditionError(LONG, (2000, 9000), LONG),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_every_error_is_one_printable_line_whatever_a_file_says(error: NpuvizError) -> None:
    text = str(error)
    assert text.isprintable()
    assert len(text) <= LONGEST_TEXT


def test_a_condition_shows_what_is_wrong_and_a_little_around_it() -> None:
    assert str(ConditionError("cycle = 3", (6, 7), "expected ==")) == "condition 'cycle >>=<< 3': expected =="
    text = str(ConditionError("a" * 4096, (0, 4096), "unknown"))
    assert len(text) < 140


def test_errors_survive_another_process() -> None:
    error = pickle.loads(pickle.dumps(UsageError("no such file")))
    assert (type(error), str(error)) == (UsageError, "no such file")
