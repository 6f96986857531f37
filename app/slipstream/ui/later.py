"""Results of other threads, handed over on the window's thread."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from PySide6.QtCore import QObject, Qt, Signal

from slipstream.domain.errors import SlipstreamError

T = TypeVar("T")


class Later(QObject):
    """`then` calls back on the window's thread when a future is done; `run` does blocking work on another thread.

    Expected failures go to `failed(SlipstreamError)`; anything else is raised here, where the fault catcher sees it.
    """

    failed = Signal(object)
    _done = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="window-work")
        self._done.connect(self._deliver, Qt.ConnectionType.QueuedConnection)
        self._closed = False

    def then(
        self, future: Future[T], use: Callable[[T], None], failed: Callable[[SlipstreamError], None] | None = None
    ) -> None:
        def report(done: Future[Any]) -> None:
            if not self._closed:
                self._done.emit((done, use, failed))

        future.add_done_callback(report)

    def run(
        self,
        work: Callable[[], T],
        use: Callable[[T], None] | None = None,
        failed: Callable[[SlipstreamError], None] | None = None,
    ) -> None:
        """Jobs run one after the other, in the order of the calls."""
        if not self._closed:
            self.then(self._pool.submit(work), use or (lambda _: None), failed)

    def close(self) -> None:
        """Finish what was asked for and hand over nothing more. Blocks while a job runs: for the way out only."""
        self._closed = True
        self._pool.shutdown(wait=True)

    def _deliver(self, parcel: tuple[Future[Any], Callable[[Any], None], Callable[[Any], None] | None]) -> None:
        if self._closed:
            return
        done, use, failed = parcel
        try:
            value = done.result()
        except SlipstreamError as error:
            if failed is not None:
                failed(error)
            else:
                self.failed.emit(error)
            return
        use(value)
