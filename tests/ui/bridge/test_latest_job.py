"""Questions in a thread of their own."""

import threading

from pytestqt.qtbot import QtBot

from npuviz.ui.bridge.latest_job import LatestJob


def test_a_quick_answer_is_there_at_once(qtbot: QtBot) -> None:
    job = LatestJob()
    assert job.ask(lambda: 7, patience=30.0)
    assert not job.is_waiting
    assert job.answer() == 7
    job.shut_down()


def test_only_the_latest_of_slow_questions_is_answered(qtbot: QtBot) -> None:
    job = LatestJob()
    gate = threading.Event()
    asked: list[int] = []

    def question(number: int) -> int:
        gate.wait(30.0)
        asked.append(number)
        return number

    answers: list[int] = []
    job.finished.connect(lambda: answers.append(job.answer()))
    for number in range(4):
        assert not job.ask(lambda number=number: question(number), patience=0.0)
    assert job.is_waiting
    with qtbot.waitSignal(job.finished):
        gate.set()
    assert answers == [3]
    assert asked[-1] == 3
    assert len(asked) <= 2, "questions that still waited are never asked"
    job.shut_down()


def test_a_late_answer_is_waited_for_until_it_was_told(qtbot: QtBot) -> None:
    job = LatestJob()
    gate = threading.Event()
    assert not job.ask(lambda: gate.wait(30.0), patience=0.0)
    gate.set()
    # It is there, but nobody who shows it has heard of it.
    assert job.answer()
    assert job.is_waiting
    with qtbot.waitSignal(job.finished):
        pass
    assert not job.is_waiting
    job.shut_down()
