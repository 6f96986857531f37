"""The model pair card: the target's square and the draft's circle, joined by what links them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QCoreApplication, QPoint, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QAction, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import (
    QAbstractButton,
    QFileDialog,
    QFrame,
    QHBoxLayout,
    QMenu,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from slipstream.ui.panel.verdict import gib, memory_size, percent, three
from slipstream.ui.panel.view import Choice, PairState, PairView, times_smaller
from slipstream.ui.theme import current, font, pixmap, px, set_prop
from slipstream.ui.widgets.chips import label
from slipstream.ui.widgets.painting import focus_ring

GLYPH_X, GLYPH_Y = 20, 18  # centre of the square and the circle in a row
Entry = tuple[str, str, int]  # path, title, size in bytes


def _tr(text: str) -> str:
    return QCoreApplication.translate("PairCard", text)


class ModelRow(QAbstractButton):
    """One model: its sign, name, quantisation and a line beneath. A click asks for its menu."""

    def __init__(self, draft: bool, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._draft = draft
        self._choice: Choice | None = None
        self._line = ""
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)

    def show_choice(self, choice: Choice | None, line: str) -> None:
        self._choice, self._line = choice, line
        self.setText(self._name())
        part = _tr("Draft") if self._draft else _tr("Target")
        self.setAccessibleName(f"{part}: {self._name()}, {line}")
        self.setAccessibleDescription(_tr("Opens a list of models to choose from"))
        self.setToolTip(choice.path if choice else "")
        self.update()

    def _name(self) -> str:
        if self._choice:
            return self._choice.name
        return _tr("No draft") if self._draft else _tr("Choose a target")

    def sizeHint(self) -> QSize:
        return QSize(px(296), px(48))

    def glyph_centre(self) -> QPointF:
        """The middle of its sign, in its own coordinates."""
        return QPointF(px(GLYPH_X) - 4, px(GLYPH_Y))

    def paintEvent(self, event: QPaintEvent) -> None:
        theme, painter = current(), QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if self.underMouse() and self.isEnabled():
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(theme.color("bg.hover"))
            painter.drawRoundedRect(QRectF(self.rect()).adjusted(0, 2, 0, -2), 6, 6)
        self._glyph(painter)
        left, right = px(GLYPH_X) + px(13), self.width() - px(30)
        painter.drawPixmap(QPoint(self.width() - px(24), px(GLYPH_Y) - 8), pixmap("chevrons-up-down", "text.2", 16))
        quant = self._choice.quant if self._choice else ""
        chip_font = font("chip")
        painter.setFont(chip_font)
        chip = painter.fontMetrics().horizontalAdvance(quant) + px(12) if quant else 0
        painter.setFont(font("strong"))
        room = right - left - (chip + px(8) if chip else 0)
        name = painter.fontMetrics().elidedText(self._name(), Qt.TextElideMode.ElideMiddle, room)
        painter.setPen(theme.color("text.1" if self._choice else "text.2"))
        top = px(GLYPH_Y) - px(10)
        centred = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        painter.drawText(QRectF(left, top, room + 2, px(20)), centred, name)
        if chip:
            box = QRectF(left + painter.fontMetrics().horizontalAdvance(name) + px(8), top, chip, px(20))
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(theme.color("track"))
            painter.drawRoundedRect(box, 4, 4)
            painter.setFont(chip_font)
            painter.setPen(theme.color("text.2"))
            painter.drawText(box, Qt.AlignmentFlag.AlignCenter, quant)
        painter.setFont(font("secondary"))
        painter.setPen(theme.color("text.2"))
        line = painter.fontMetrics().elidedText(self._line, Qt.TextElideMode.ElideRight, self.width() - left - px(8))
        painter.drawText(QRectF(left, top + px(20), self.width() - left, px(16)), centred, line)
        if self.hasFocus():
            focus_ring(painter, QRectF(self.rect()).adjusted(1, 1, -1, -1))

    def _glyph(self, painter: QPainter) -> None:
        theme, centre, half = current(), self.glyph_centre(), px(12) / 2
        box = QRectF(centre.x() - half, centre.y() - half, 2 * half, 2 * half)
        token = "accent" if self._draft else "target"
        if self._choice:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(theme.color(token))
        else:
            painter.setPen(QPen(theme.color("line.control"), 1.5))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            box.adjust(0.75, 0.75, -0.75, -0.75)
        if self._draft:
            painter.drawEllipse(box)
        else:
            painter.drawRoundedRect(box, 2, 2)


class PairCard(QFrame):
    """Shows a `PairView` and lets the user change it."""

    targetPicked = Signal(str)
    draftPicked = Signal(str)  # empty: no draft
    unloadRequested = Signal()
    cancelLoadRequested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._view = PairView()
        self._models: tuple[Entry, ...] = ()
        self.setProperty("surface", "card")
        column = QVBoxLayout(self)
        column.setContentsMargins(4, 4, 4, 4)
        column.setSpacing(0)
        self.target_row, self.draft_row = ModelRow(False), ModelRow(True)
        self.target_row.clicked.connect(lambda: self._popup(self.target_menu(), self.target_row))
        self.draft_row.clicked.connect(lambda: self._popup(self.draft_menu(), self.draft_row))
        self._sign = _Sign()
        self._words = label(role="secondary", tone="1")
        self._link = QPushButton()
        self._link.setProperty("kind", "link")
        self._link.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self._link.clicked.connect(self._follow_link)
        middle = QHBoxLayout()
        middle.setContentsMargins(px(GLYPH_X) - 4 - px(8), 0, 8, 0)
        middle.setSpacing(px(9))
        middle.addWidget(self._sign)
        middle.addWidget(self._words, 1)
        middle.addWidget(self._link)
        column.addWidget(self.target_row)
        column.addLayout(middle)
        column.addWidget(self.draft_row)
        self.set_view(self._view)

    @property
    def view(self) -> PairView:
        return self._view

    @property
    def words(self) -> str:
        """What it says of the pair."""
        return self._words.text()

    def set_models(self, models: Sequence[Entry]) -> None:
        self._models = tuple(models)

    def set_view(self, view: PairView) -> None:
        self._view = view
        self.target_row.show_choice(view.target, _target_line(view))
        self.draft_row.show_choice(view.draft, _draft_line(view))
        icon, token, words, tone = _joint(view)
        self._sign.show_icon(icon, token)
        self._words.setText(words)
        set_prop(self._words, "tone", tone)
        self._words.setToolTip(view.reason)
        self._link.setText(_tr("Cancel") if view.state is PairState.LOADING else _tr("Why?"))
        self._link.setVisible(view.state is PairState.LOADING or bool(_checks(view)))
        self.update()

    def target_menu(self) -> QMenu:
        chosen = self._view.target
        menu = self._menu(chosen, self.targetPicked.emit, _tr("Open a target"))
        if self._view.loaded:
            menu.addSeparator()
            menu.addAction(_tr("Unload")).triggered.connect(self.unloadRequested)
        return menu

    def draft_menu(self) -> QMenu:
        menu = self._menu(self._view.draft, self.draftPicked.emit, _tr("Open a draft"))
        none = QAction(_tr("No draft"), menu)
        none.setCheckable(True)
        none.setChecked(self._view.draft is None)
        none.triggered.connect(lambda: self.draftPicked.emit(""))
        before = menu.actions()[0]
        menu.insertAction(before, none)
        menu.insertSeparator(before)
        return menu

    def _menu(self, chosen: Choice | None, pick: Callable[[str], None], title: str) -> QMenu:
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        for path, name, size_bytes in self._models:
            action = menu.addAction(f"{name}\t{three(size_bytes / 1e9)} GB".replace("&", "&&"))
            action.setToolTip(path)
            action.setCheckable(True)
            action.setChecked(chosen is not None and chosen.path == path)
            action.triggered.connect(lambda _=False, path=path: pick(path))
        if self._models:
            menu.addSeparator()
        menu.addAction(_tr("Open a file…")).triggered.connect(lambda: self._open(title, pick))
        return menu

    def _open(self, title: str, pick: Callable[[str], None]) -> None:
        dialog = QFileDialog(self, title, "", _tr("Models (*.gguf);;All files (*)"))
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.fileSelected.connect(pick)
        dialog.open()  # never exec: a nested loop would starve the asyncio one

    def _popup(self, menu: QMenu, row: QWidget) -> None:
        menu.setMinimumWidth(row.width())
        menu.popup(row.mapToGlobal(QPoint(0, row.height())))

    def _follow_link(self) -> None:
        if self._view.state is PairState.LOADING:
            self.cancelLoadRequested.emit()
        else:
            popover = Checks(self._headline(), _checks(self._view), self)
            popover.adjustSize()
            corner = self._link.mapToGlobal(QPoint(self._link.width() - popover.width(), self._link.height() + 4))
            popover.move(corner)
            popover.show()

    def _headline(self) -> str:
        return _tr("Why they match") if self._view.state is PairState.COMPATIBLE else _tr("Why they do not match")

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        theme, half = current(), px(12) / 2 + 2
        top = QPointF(self.target_row.mapTo(self, QPoint(0, 0))) + self.target_row.glyph_centre()
        end = QPointF(self.draft_row.mapTo(self, QPoint(0, 0))) + self.draft_row.glyph_centre()
        top.setY(top.y() + half)
        end.setY(end.y() - half)
        broken = self._view.state in (PairState.MISMATCH, PairState.FAILED)
        pen = QPen(theme.color("bad" if broken else "text.3"), 2)
        pen.setCapStyle(Qt.PenCapStyle.RoundCap)
        pen.setDashPattern([0.01, 2.2])
        painter.setPen(pen)
        painter.drawLine(top, end)
        if self._view.state is PairState.LOADING:
            reached = QPointF(top.x(), top.y() + (end.y() - top.y()) * min(1.0, max(0.0, self._view.fraction)))
            painter.setPen(QPen(theme.color("accent"), 2.5, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap))
            painter.drawLine(top, reached)


class _Sign(QWidget):
    """The icon on the line, on a bed that interrupts it."""

    def __init__(self) -> None:
        super().__init__()
        self._icon = ("", "text.2")
        self.setFixedSize(px(16), px(24))

    def show_icon(self, name: str, token: str) -> None:
        self._icon = (name, token)
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        name, token = self._icon
        if not name:
            return
        painter = QPainter(self)
        side = px(16)
        painter.fillRect(QRectF(0, (self.height() - side) / 2 - 1, side, side + 2), current().color("bg.raised"))
        painter.drawPixmap(QPoint(0, (self.height() - side) // 2), pixmap(name, token, side))


class Checks(QFrame):
    """The popover of "Why?": each check and whether it holds."""

    def __init__(self, headline: str, checks: Sequence[tuple[bool, str]], parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setProperty("surface", "popover")
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 10, 12, 10)
        column.setSpacing(4)
        column.addWidget(label(headline, "strong"))
        for holds, text in checks:
            row = QHBoxLayout()
            row.setSpacing(8)
            sign = label()
            sign.setPixmap(pixmap("check" if holds else "x", "accent.text" if holds else "bad.text", 16))
            sign.setAccessibleName(_tr("holds") if holds else _tr("does not hold"))
            words = label(text, "secondary", "1")
            words.setWordWrap(True)
            words.setMinimumWidth(px(280))
            row.addWidget(sign, 0, Qt.AlignmentFlag.AlignTop)
            row.addWidget(words, 1)
            column.addLayout(row)


def _target_line(view: PairView) -> str:
    if view.target is None:
        return _tr("A model file (GGUF) to chat with")
    parts = [_tr("Target")]
    if view.target.size:
        parts.append(memory_size(view.target.size))
    if not view.loaded and view.state is not PairState.LOADING:
        parts.append(_tr("not loaded"))
    return " · ".join(parts)


def _draft_line(view: PairView) -> str:
    if view.draft is None:
        if view.loaded and "ngram" in view.drafters:
            return _tr("Guesses come from the text itself")
        return _tr("Optional: a smaller model that guesses")
    parts = [_tr("Draft")]
    if view.draft.size:
        parts.append(memory_size(view.draft.size))
    if view.state is PairState.MISMATCH or (not view.loaded and view.state is not PairState.LOADING):
        parts.append(_tr("not loaded"))
    return " · ".join(parts)


def _joint(view: PairView) -> tuple[str, str, str, str]:
    """Icon, its token, words and their tone for the link between the two."""
    match view.state:
        case PairState.CHECKING:
            return "loader", "text.2", _tr("Checking whether they match"), "2"
        case PairState.LOADING:
            stages = {
                "target": _tr("Loading the target"),
                "draft": _tr("Loading the draft"),
                "contexts": _tr("Making room for the context"),
                "profile": _tr("Measuring plain speed"),
            }
            words = stages.get(view.stage, _tr("Loading"))
            return "", "", f"{words}, {percent(min(1.0, max(0.0, view.fraction)))} %", "1"
        case PairState.COMPATIBLE:
            return "circle-check", "accent.text", _match_words(view), "1"
        case PairState.MISMATCH:
            return "circle-x", "bad.text", _tr("The draft does not match"), "bad"
        case PairState.FAILED:
            return "circle-x", "bad.text", _tr("Loading failed"), "bad"
    if view.target is None:
        return "", "", "", "2"
    return "", "", _tr("The target works alone") if view.loaded and not view.drafters else "", "2"


def _times(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 9.5 else f"{ratio:.1f}"


def _match_words(view: PairView) -> str:
    if view.target and view.draft and view.target.info and view.draft.info:
        ratio = times_smaller(view.target.info, view.draft.info)
        if ratio is not None and ratio >= 1.05:
            return _tr("Same tokenizer, {ratio}× smaller").format(ratio=_times(ratio))
    return _tr("Same tokenizer")


def _checks(view: PairView) -> tuple[tuple[bool, str], ...]:
    """The lines of "Why?": those given, or what a loaded pair proves by itself."""
    if view.checks:
        return view.checks
    if view.state in (PairState.MISMATCH, PairState.FAILED) and view.reason:
        return ((False, view.reason),)
    target, draft = (part.info if part else None for part in (view.target, view.draft))
    if view.state is not PairState.COMPATIBLE or target is None or draft is None:
        return ()
    lines = [
        (
            True,
            _tr("All {count} tokens have the same text and number").format(
                count=f"{min(target.n_vocab, draft.n_vocab):,}"
            ),
        )
    ]
    ratio = times_smaller(target, draft)
    if ratio is not None:
        lines.append(
            (
                ratio > 1,
                _tr("{ratio}× fewer weights: {draft} against {target} GiB").format(
                    ratio=_times(ratio), draft=gib(draft.size_bytes), target=gib(target.size_bytes)
                ),
            )
        )
    return tuple(lines)
