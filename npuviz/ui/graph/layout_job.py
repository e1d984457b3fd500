"""Lays a graph out on a thread of its own, so that the window waits for nothing."""

from PySide6.QtCore import QObject, Signal

from npuviz.base.progress import Progress
from npuviz.program.program import Program
from npuviz.ui.graph.layout import Direction, GraphLayout, lay_out_graph
from npuviz.ui.graph.progress import GraphProgress
from npuviz.workbench.jobs import Job, JobEnd, JobRunner


class GraphLayoutJob(QObject):
    """One layout after the other.

    finished  (program, GraphLayout, GraphProgress) in the window's thread
    failed    one line
    """

    finished = Signal(object, object, object)
    failed = Signal(str)
    _ended = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._runner = JobRunner("npuviz-graph", _ignore_report, self._emit_end)
        self._ended.connect(self._on_ended)

    def start(self, program: Program, direction: Direction, units: list[int]) -> None:
        """Lay a program's graph out, and count the instructions of its nodes on these units."""

        def work(_progress: Progress) -> tuple[Program, GraphLayout, GraphProgress]:
            layout = lay_out_graph(program.graph, direction)
            return program, layout, GraphProgress(program.listing, len(program.graph.nodes), units)

        self._runner.submit("Laying out the graph", work)

    def shut_down(self) -> None:
        """End the thread."""
        self._runner.shut_down()
        self.blockSignals(True)

    def _emit_end(self, _job: Job, end: JobEnd) -> None:
        self._ended.emit(end)

    def _on_ended(self, end: JobEnd) -> None:
        if end.error is not None:
            self.failed.emit(f"no layout: {end.error}")
        else:
            self.finished.emit(*end.result)


def _ignore_report(_job: Job, _fraction: float, _text: str) -> None:
    """A layout takes less than a second: its progress is not shown."""
