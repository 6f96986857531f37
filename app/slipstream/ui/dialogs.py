"""Dialogs: opening a link, choosing a model file, and reporting a fault of ours."""

from __future__ import annotations

import platform
import sys
import traceback
from types import TracebackType

from PySide6 import __version__ as pyside_version
from PySide6.QtCore import QCoreApplication, QUrl, qVersion
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import (
    QApplication,
    QDialog,
    QFileDialog,
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from slipstream import __version__
from slipstream.ui.theme import font, px

_SAFE_SCHEMES = ("http", "https", "mailto")


def _tr(text: str) -> str:
    return QCoreApplication.translate("dialogs", text)


class LinkDialog(QDialog):
    """Shows where a link leads before anything is opened."""

    def __init__(self, target: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(_tr("Open this link?"))
        self.setMinimumWidth(px(420))
        safe = QUrl(target).scheme().lower() in _SAFE_SCHEMES
        words = (
            _tr("It opens in your browser, which uses the network.")
            if safe
            else _tr("Only web and mail links can be opened. You can copy it.")
        )
        head = QLabel(words)
        head.setWordWrap(True)
        shown = QPlainTextEdit(target)
        shown.setReadOnly(True)
        shown.setFont(font("code"))
        shown.setFixedHeight(px(72))
        column = QVBoxLayout(self)
        column.setContentsMargins(px(24), px(24), px(24), px(16))
        column.setSpacing(px(16))
        column.addWidget(head)
        column.addWidget(shown)
        line = QHBoxLayout()
        line.addStretch(1)
        for text, kind, act in (
            (_tr("Cancel"), "secondary", self.reject),
            (_tr("Copy link"), "secondary", lambda: QApplication.clipboard().setText(target)),
            (_tr("Open link"), "primary", self.accept),
        ):
            one = QPushButton(text)
            one.setProperty("kind", kind)
            one.clicked.connect(act)
            one.setEnabled(safe or kind != "primary")
            one.setDefault(kind == "primary")
            line.addWidget(one)
        column.addLayout(line)


def ask_link(target: str, parent: QWidget | None) -> None:
    """Show the target and open it in the browser if the user agrees. Does not block."""
    dialog = LinkDialog(target, parent)
    dialog.accepted.connect(lambda: QDesktopServices.openUrl(QUrl(target)))
    dialog.finished.connect(dialog.deleteLater)
    dialog.open()


def pick_model(parent: QWidget | None, folder: str) -> str:
    """The model file the user chose, "" for none."""
    title, kinds = _tr("Open a model file"), _tr("Models (*.gguf);;All files (*)")
    return QFileDialog.getOpenFileName(parent, title, folder, kinds)[0]


class ErrorDialog(QDialog):
    """A fault of ours, with a report that can be copied. It never holds text of a chat."""

    def __init__(self, report: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(_tr("Something went wrong"))
        self.setMinimumSize(px(560), px(360))
        self.report = report
        head = QLabel(_tr("Slipstream met a fault of its own. Your chats are saved."))
        head.setProperty("role", "section")
        head.setWordWrap(True)
        text = QLabel(_tr("This report helps to mend it. It holds none of your chats."))
        text.setProperty("role", "secondary")
        text.setWordWrap(True)
        shown = QPlainTextEdit(report)
        shown.setReadOnly(True)
        shown.setFont(font("code"))
        copy = QPushButton(_tr("Copy report"))
        copy.setProperty("kind", "primary")
        copy.clicked.connect(lambda: QApplication.clipboard().setText(report))
        close = QPushButton(_tr("Go on"))
        close.setProperty("kind", "secondary")
        close.clicked.connect(self.accept)
        line = QHBoxLayout()
        line.addStretch(1)
        line.addWidget(close)
        line.addWidget(copy)
        column = QVBoxLayout(self)
        column.setContentsMargins(px(24), px(24), px(24), px(16))
        column.setSpacing(px(12))
        for widget in (head, text, shown):
            column.addWidget(widget)
        column.addLayout(line)


def make_report(kind: type[BaseException], trace: TracebackType | None) -> str:
    """Where it happened and on what. The exception's own text is left out: it may quote a chat or a path."""
    frames = traceback.extract_tb(trace)
    lines = [
        f"Slipstream {__version__}",
        f"Python {platform.python_version()}, Qt {qVersion()}, PySide6 {pyside_version}",
        f"{platform.system()} {platform.release()} {platform.machine()}",
        "",
        kind.__name__,
    ]
    for frame in frames:
        name = frame.filename.replace("\\", "/")
        at = name.rfind("/slipstream/")
        short = name[at + 1 :] if at >= 0 else name.rsplit("/", 1)[-1]
        lines.append(f"  {short}:{frame.lineno} in {frame.name}")
    return "\n".join(lines)


class FaultCatcher:
    """Opens the error dialog for exceptions nobody handled: once at a time, so a fault in a timer cannot bury the
    screen. `install` replaces sys.excepthook; `uninstall` puts it back."""

    def __init__(self, parent: QWidget | None = None) -> None:
        self._parent = parent
        self._before = sys.excepthook
        self._open: ErrorDialog | None = None

    @property
    def dialog(self) -> ErrorDialog | None:
        return self._open

    def install(self) -> None:
        sys.excepthook = self.caught

    def uninstall(self) -> None:
        sys.excepthook = self._before

    def caught(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            QApplication.quit()
            return
        self._before(kind, error, trace)
        if self._open is not None or QApplication.instance() is None:
            return
        self._open = ErrorDialog(make_report(kind, trace), self._parent)
        self._open.finished.connect(self._closed)
        self._open.open()

    def asyncio_handler(self, _loop: object, context: dict[str, object]) -> None:
        """For `loop.set_exception_handler`."""
        error = context.get("exception")
        if isinstance(error, BaseException):
            self.caught(type(error), error, error.__traceback__)

    def _closed(self) -> None:
        if self._open is not None:
            self._open.deleteLater()
        self._open = None
