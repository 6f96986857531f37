"""Moving values: one shared 33 ms timer that runs only while something moves, and a brake on texts."""

from __future__ import annotations

import time
from collections.abc import Callable

from PySide6.QtCore import QObject, Qt, QTimer, Signal
from PySide6.QtWidgets import QWidget

from slipstream.ui.theme import reduced_motion

FRAME_MS = 33
REDUCED_MS = 1000  # with reduced motion a value jumps, at most once a second
EASE_S = 0.25
Clock = Callable[[], float]


class Motion(QObject):
    """The timer that all gliding values share. It stops as soon as none moves."""

    def __init__(self, parent: QObject | None = None, clock: Clock = time.monotonic) -> None:
        super().__init__(parent)
        self.clock = clock
        self._moving: list[Glide] = []
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self.step)

    @property
    def running(self) -> bool:
        return self._timer.isActive()

    def run(self, glide: Glide) -> None:
        """Move `glide` until it says it has arrived."""
        if glide not in self._moving:
            self._moving.append(glide)
        interval = REDUCED_MS if reduced_motion() else FRAME_MS
        if not self._timer.isActive() or self._timer.interval() != interval:
            self._timer.start(interval)

    def step(self) -> None:
        """One frame."""
        now = self.clock()
        self._moving = [glide for glide in self._moving if glide.step(now)]
        if not self._moving:
            self._timer.stop()


class Glide(QObject):
    """A number that eases to the latest value asked for in 250 ms. `moved` tells its painter to repaint."""

    moved = Signal()

    def __init__(self, motion: Motion, owner: QWidget, value: float = 0.0) -> None:
        super().__init__(owner)
        self._motion = motion
        self._owner = owner
        self._start = self._target = self.value = value
        self._since = 0.0

    @property
    def target(self) -> float:
        return self._target

    def set(self, value: float) -> None:
        """Go to `value`; at once where nobody can see it."""
        if value == self._target:
            return
        self._start, self._target, self._since = self.value, value, self._motion.clock()
        if _shown(self._owner):
            self._motion.run(self)
        else:
            self.jump(value)

    def jump(self, value: float) -> None:
        self._start = self._target = self.value = value
        self.moved.emit()

    def step(self, now: float) -> bool:
        """Advance to the time `now`; False on arrival."""
        passed = 1.0 if reduced_motion() or not _shown(self._owner) else (now - self._since) / EASE_S
        if passed >= 1.0:
            self.jump(self._target)
            return False
        rest = 1.0 - max(0.0, passed)
        self.value = self._target + (self._start - self._target) * rest * rest * rest
        self.moved.emit()
        return True


class Pacer(QObject):
    """Calls back at most once an interval, the first time at once, and never forgets the last call."""

    def __init__(self, interval_s: float, call: Callable[[], None], parent: QObject, clock: Clock = time.monotonic):
        super().__init__(parent)
        self._interval_s = interval_s
        self._call = call
        self._clock = clock
        self._last = float("-inf")
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self.flush)

    @property
    def waiting(self) -> bool:
        return self._timer.isActive()

    def poke(self) -> None:
        """Something changed: show it now, or when the interval is over."""
        interval = max(self._interval_s, REDUCED_MS / 1000) if reduced_motion() else self._interval_s
        rest = interval - (self._clock() - self._last)
        if rest <= 0:
            self.flush()
        elif not self._timer.isActive():
            self._timer.start(max(1, round(rest * 1000)))

    def flush(self) -> None:
        """Show it now, whatever the interval says."""
        self._timer.stop()
        self._last = self._clock()
        self._call()


def _shown(widget: QWidget) -> bool:
    return widget.isVisible() and not widget.window().isMinimized()
