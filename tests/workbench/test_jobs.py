import threading

from npuviz.base.errors import Cancelled
from npuviz.base.progress import Progress
from npuviz.workbench.jobs import Job, JobEnd, JobRunner

WAIT = 200


class Recorder:
    def __init__(self) -> None:
        self.reports: list[tuple[str, float]] = []
        self.ends: list[JobEnd] = []
        self.ended = threading.Semaphore(0)
        self.runner = JobRunner("test-jobs", self._report, self._done)

    def _report(self, job: Job, fraction: float, text: str) -> None:
        self.reports.append((f"{job.title} {text}", fraction))

    def _done(self, job: Job, end: JobEnd) -> None:
        self.ends.append(end)
        self.ended.release()

    def wait(self) -> JobEnd:
        assert self.ended.acquire(timeout=WAIT)
        return self.ends[-1]


def test_jobs_run_in_order_in_one_other_thread() -> None:
    recorder = Recorder()
    names: list[str] = []

    def work(progress: Progress) -> int:
        progress.report(0.5, "half")
        names.append(threading.current_thread().name)
        return len(names)

    recorder.runner.submit("a", work)
    recorder.runner.submit("b", work)
    recorder.wait()
    assert recorder.wait().result == 2
    assert names == ["test-jobs", "test-jobs"]
    assert recorder.reports == [("a half", 0.5), ("b half", 0.5)]
    assert recorder.runner.shut_down()


def test_an_exception_is_the_end_of_the_job_not_of_the_thread() -> None:
    recorder = Recorder()

    def bad(_progress: Progress) -> None:
        raise ValueError("no")

    recorder.runner.submit("bad", bad)
    assert isinstance(recorder.wait().error, ValueError)
    recorder.runner.submit("good", lambda _progress: 7)
    assert recorder.wait().result == 7
    recorder.runner.shut_down()


def test_cancel_ends_a_job_at_its_next_report() -> None:
    recorder = Recorder()
    started, go_on = threading.Event(), threading.Event()
    interrupted: list[bool] = []

    def work(progress: Progress) -> None:
        started.set()
        go_on.wait(WAIT)
        progress.report(0.1)

    job = recorder.runner.submit("long", work, lambda: interrupted.append(True))
    assert started.wait(WAIT)
    job.cancel()
    go_on.set()
    assert isinstance(recorder.wait().error, Cancelled)
    assert interrupted == [True]
    recorder.runner.shut_down()


def test_shut_down_without_jobs_is_fine() -> None:
    assert Recorder().runner.shut_down()
