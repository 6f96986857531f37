"""The line at the foot of the window: engine, device, pair, context, privacy."""

from __future__ import annotations

from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QWidget

from slipstream.domain.protocol import Loaded
from slipstream.ui.theme import pixmap, px, set_prop


class StatusLine(QFrame):
    """32 px high; each part is a sentence a screen reader can read."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "window")
        self.setFixedHeight(px(32))
        self._dot = QLabel("●")
        self._state, self._device, self._pair, self._context = (QLabel() for _ in range(4))
        self._lock = QLabel()
        self._local = QLabel(self.tr("Nothing you type leaves this computer"))
        row = QHBoxLayout(self)
        row.setContentsMargins(px(16), 0, px(16), 0)
        row.setSpacing(px(8))
        row.addWidget(self._dot)
        for label in (self._state, self._device, self._pair, self._context):
            label.setProperty("role", "secondary")
            row.addWidget(label)
            row.addSpacing(px(12))
        row.addStretch(1)
        row.addWidget(self._lock)
        row.addWidget(self._local)
        self._local.setProperty("role", "secondary")
        self._dot.setProperty("role", "caption")
        self.set_state(self.tr("No model loaded"), "3")
        self.restyle()

    @property
    def text(self) -> str:
        labels = (self._state, self._device, self._pair, self._context)
        return " | ".join(label.text() for label in labels if label.text())

    def set_state(self, words: str, tone: str) -> None:
        """`tone` colours the dot: "good", "warn", "bad" or "3"."""
        self._state.setText(words)
        set_prop(self._dot, "tone", tone)

    def set_loaded(self, loaded: Loaded | None) -> None:
        if loaded is None:
            for label in (self._device, self._pair, self._context):
                label.clear()
            return
        self._device.setText(device_words(loaded))
        draft = loaded.draft
        self._pair.setText(loaded.target.name + (f" + {draft.name}" if draft else ""))
        self.set_context(0, loaded.n_ctx)

    def set_context(self, used: int, size: int) -> None:
        """Tokens of the context in use, of how many; 0 of 0 shows nothing."""
        if not size:
            self._context.clear()
        elif used:
            self._context.setText(self.tr("{0} of {1} tokens").format(f"{used:,}", f"{size:,}"))
        else:
            self._context.setText(self.tr("{0}-token context").format(f"{size:,}"))

    def restyle(self) -> None:
        self._lock.setPixmap(pixmap("lock", "text.2", 14))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        wide = self.width() >= px(1000)
        self._local.setVisible(wide)
        self._lock.setVisible(True)
        self._lock.setToolTip(self._local.text())
        self._pair.setVisible(self.width() >= px(820))


def device_words(loaded: Loaded) -> str:
    """Where the models run: the GPUs by name, or the CPU and its threads. Never silent about the CPU."""
    gpus = [d.description or d.name for d in loaded.devices if d.kind in ("gpu", "igpu")]
    threads = f"CPU, {loaded.threads} threads" if loaded.threads != 1 else "CPU, 1 thread"
    return " + ".join(gpus) if gpus else threads
