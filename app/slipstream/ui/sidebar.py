"""The list of chats."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from PySide6.QtCore import (
    QAbstractListModel,
    QModelIndex,
    QPersistentModelIndex,
    QPoint,
    QRect,
    QSize,
    Qt,
    QTimer,
    Signal,
)
from PySide6.QtGui import QKeyEvent, QPainter
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QHBoxLayout,
    QLabel,
    QListView,
    QMenu,
    QPushButton,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)

from slipstream.store.records import Chat
from slipstream.ui.theme import current, font, icon, px

_UNDO_MS = 10_000
_ROLE_CHAT = Qt.ItemDataRole.UserRole
_Index = QModelIndex | QPersistentModelIndex


class ChatList(QAbstractListModel):
    """Chats under day headings. A row is a heading (str) or a Chat."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[str | Chat] = []

    def set_chats(self, chats: Sequence[Chat], headings: Sequence[str]) -> None:
        """`headings` holds one word for each chat; a heading row comes where it changes."""
        rows: list[str | Chat] = []
        last = ""
        for chat, heading in zip(chats, headings, strict=True):
            if heading != last:
                rows.append(heading)
                last = heading
            rows.append(chat)
        if rows == self.rows:
            return
        self.beginResetModel()
        self.rows = rows
        self.endResetModel()

    def rowCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self.rows)

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        row = self.rows[index.row()]
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole):
            return row if isinstance(row, str) else row.title
        if role == _ROLE_CHAT:
            return row if isinstance(row, Chat) else None
        if role == Qt.ItemDataRole.ToolTipRole and isinstance(row, Chat):
            return row.title
        return None

    def flags(self, index: _Index) -> Qt.ItemFlag:
        if isinstance(self.rows[index.row()], str):
            return Qt.ItemFlag.NoItemFlags
        return Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable

    def row_of(self, chat_id: str) -> int:
        """-1 where it is not listed."""
        return next((i for i, r in enumerate(self.rows) if isinstance(r, Chat) and r.id == chat_id), -1)


class Sidebar(QFrame):
    """Signals: `newAsked()`, `picked(chat_id)`, `deleteAsked(chat_id)`, `restoreAsked(chat_id)`."""

    newAsked = Signal()
    picked = Signal(str)
    deleteAsked = Signal(str)
    restoreAsked = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "window")
        title = QLabel(self.tr("Chats"))
        title.setProperty("role", "section")
        self._new = QPushButton()
        self._new.setProperty("kind", "icon")
        self._new.setToolTip(self.tr("New chat (Ctrl+N)"))
        self._new.setAccessibleName(self.tr("New chat"))
        self._new.clicked.connect(self.newAsked)
        head = QHBoxLayout()
        head.setContentsMargins(px(16), px(8), px(8), px(8))
        head.addWidget(title, 1)
        head.addWidget(self._new)
        self._model = ChatList()
        self._list = _List()
        self._list.setAccessibleName(self.tr("Chats"))
        self._list.setModel(self._model)
        self._list.setItemDelegate(_Delegate(self._list))
        self._list.selectionModel().currentChanged.connect(self._current_changed)
        self._list.deleteAsked.connect(self._delete_current)
        self._list.customContextMenuRequested.connect(self._menu)
        self._empty = QLabel(self.tr("No chats yet. They will be kept on this computer."))
        self._empty.setProperty("role", "secondary")
        self._empty.setWordWrap(True)
        self._empty.setContentsMargins(px(16), px(8), px(16), px(8))
        self._undo = QFrame()
        self._undo.setProperty("surface", "sunken")
        self._undo_text = QLabel()
        self._undo_text.setProperty("role", "secondary")
        back = QPushButton(self.tr("Undo"))
        back.setProperty("kind", "link")
        back.clicked.connect(self._bring_back)
        line = QHBoxLayout(self._undo)
        line.setContentsMargins(px(12), px(8), px(12), px(8))
        line.addWidget(self._undo_text, 1)
        line.addWidget(back)
        holder = QVBoxLayout()
        holder.setContentsMargins(px(8), 0, px(8), px(8))
        holder.addWidget(self._undo)
        self._undo.hide()
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(head)
        column.addWidget(self._empty)
        self._rest = QWidget()
        column.addWidget(self._rest, 1)
        column.addWidget(self._list, 1)
        column.addLayout(holder)
        self._deleted = ""
        self._quiet = False
        self._forget = QTimer(self)
        self._forget.setSingleShot(True)
        self._forget.timeout.connect(self._undo.hide)
        self.restyle()

    def set_chats(self, chats: Sequence[Chat], current_id: str) -> None:
        """List `chats` in their order and mark the current one."""
        self._quiet = True
        self._model.set_chats(chats, [self._heading(chat) for chat in chats])
        row = self._model.row_of(current_id)
        self._list.setCurrentIndex(self._model.index(row) if row >= 0 else QModelIndex())
        self._quiet = False
        self._empty.setVisible(not chats)
        self._list.setVisible(bool(chats))
        self._rest.setVisible(not chats)

    def chat_ids(self) -> list[str]:
        return [row.id for row in self._model.rows if isinstance(row, Chat)]

    @property
    def undo_shown(self) -> bool:
        return not self._undo.isHidden()

    def offer_undo(self, chat: Chat) -> None:
        self._deleted = chat.id
        metrics = self._undo_text.fontMetrics()
        words = self.tr("Deleted “{0}”").format(chat.title)
        self._undo_text.setText(metrics.elidedText(words, Qt.TextElideMode.ElideRight, px(140)))
        self._undo.show()
        self._forget.start(_UNDO_MS)

    def restyle(self) -> None:
        self._new.setIcon(icon("square-pen", "text.2", 18))
        self._list.viewport().update()

    def _heading(self, chat: Chat) -> str:
        if chat.pinned:
            return self.tr("Pinned")
        days = (dt.date.today() - dt.date.fromtimestamp(chat.updated_at)).days
        if days <= 0:
            return self.tr("Today")
        if days == 1:
            return self.tr("Yesterday")
        return self.tr("Previous 7 days") if days <= 7 else self.tr("Older")

    def _current_changed(self, index: QModelIndex, _before: QModelIndex) -> None:
        chat = index.data(_ROLE_CHAT) if index.isValid() else None
        if isinstance(chat, Chat) and not self._quiet:
            self.picked.emit(chat.id)

    def _delete_current(self) -> None:
        chat = self._list.currentIndex().data(_ROLE_CHAT)
        if isinstance(chat, Chat):
            self._delete(chat)

    def _delete(self, chat: Chat) -> None:
        self.offer_undo(chat)
        self.deleteAsked.emit(chat.id)

    def _bring_back(self) -> None:
        self._undo.hide()
        if self._deleted:
            self.restoreAsked.emit(self._deleted)
            self._deleted = ""

    def _menu(self, at: QPoint) -> None:
        chat = self._list.indexAt(at).data(_ROLE_CHAT)
        if not isinstance(chat, Chat):
            return
        menu = QMenu(self)
        menu.addAction(icon("trash-2", "text.2", 16), self.tr("Delete"), lambda: self._delete(chat))
        menu.exec(self._list.viewport().mapToGlobal(at))
        menu.deleteLater()


class _List(QListView):
    deleteAsked = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setMouseTracking(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        # The theme rings the focused row; Qt would ring the whole list with the same rule.
        self.setStyleSheet("QListView, QListView:focus { border: none; padding: 0; }")

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Delete:
            self.deleteAsked.emit()
        else:
            super().keyPressEvent(event)


class _Delegate(QStyledItemDelegate):
    """Rows of 32: a heading in caption type, or a chat's title."""

    def sizeHint(self, option: QStyleOptionViewItem, index: _Index) -> QSize:
        return QSize(px(100), px(32))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: _Index) -> None:
        theme = current()
        chat = index.data(_ROLE_CHAT)
        area: QRect = option.rect.adjusted(px(8), 1, -px(8), -1)  # type: ignore[attr-defined]
        state = option.state  # type: ignore[attr-defined]
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if isinstance(chat, Chat):
            chosen = bool(state & QStyle.StateFlag.State_Selected)
            if chosen or state & QStyle.StateFlag.State_MouseOver:
                painter.setPen(Qt.PenStyle.NoPen)
                painter.setBrush(theme.color("bg.selected" if chosen else "bg.hover"))
                painter.drawRoundedRect(area, 6, 6)
            if chosen and state & QStyle.StateFlag.State_HasFocus:
                painter.setPen(theme.color("focus"))
                painter.setBrush(Qt.BrushStyle.NoBrush)
                painter.drawRoundedRect(area.adjusted(0, 0, -1, -1), 6, 6)
            painter.setFont(font("strong" if chosen else "body"))
            painter.setPen(theme.color("text.1" if chosen else "text.2"))
            words = chat.title or self.tr("New chat")
        else:
            painter.setFont(font("secondary"))
            painter.setPen(theme.color("text.3"))
            words = str(index.data())
        inner = area.adjusted(px(8), 0, -px(8), 0)
        elided = painter.fontMetrics().elidedText(words, Qt.TextElideMode.ElideRight, inner.width())
        painter.drawText(inner, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, elided)
        painter.restore()
