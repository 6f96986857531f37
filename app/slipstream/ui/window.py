"""The main window: chats at the left, the conversation in the middle, what the draft gains at the right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QCloseEvent, QKeySequence, QResizeEvent, QShortcut
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QMainWindow,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from slipstream.domain.errors import ErrorInfo, SlipstreamError
from slipstream.domain.protocol import EngineGone, Event, Loaded, LoadProgress, LoadRefused, Unloaded
from slipstream.domain.speculation import Mode, Speculation
from slipstream.store.chats import ChatStore
from slipstream.store.library import Library, LocalModel, find_starter
from slipstream.store.settings import Geometry
from slipstream.ui.bridge import Bridge
from slipstream.ui.composer import Composer
from slipstream.ui.dialogs import ask_link, pick_model
from slipstream.ui.keeper import SettingsKeeper
from slipstream.ui.later import Later
from slipstream.ui.pair import PairControl
from slipstream.ui.pairview import pair_view
from slipstream.ui.panel import SlipstreamPanel
from slipstream.ui.session import ChatSession
from slipstream.ui.sidebar import Sidebar
from slipstream.ui.statusline import StatusLine
from slipstream.ui.theme import ThemeManager, icon, logo_icon, px
from slipstream.ui.transcript import Card, Transcript, button
from slipstream.ui.welcome import Welcome

_SIDEBAR, _PANEL = 248, 336
_ALL_COLUMNS, _NO_PANEL = 1280, 1080  # widths: from here on all columns; below this one no panel by itself


class MainWindow(QMainWindow):
    """Wires the parts together; each does its own work. Built by `app.build_window`."""

    def __init__(
        self,
        bridge: Bridge,
        store: ChatStore,
        keeper: SettingsKeeper,
        later: Later,
        scan: Callable[[Sequence[Path]], Library],
        folders: Sequence[Path],
        theme: ThemeManager,
    ) -> None:
        super().__init__()
        self._bridge, self._store, self._keeper, self._later = bridge, store, keeper, later
        self._scan, self._folders, self._theme = scan, tuple(folders), theme
        self._models: tuple[LocalModel, ...] = ()
        self._starter: LocalModel | None = None
        self._closing: list[Callable[[], None]] = []
        self.setWindowTitle("Slipstream")
        self.setMinimumSize(900, 600)
        self.sidebar, self.transcript, self.composer = Sidebar(), Transcript(), Composer()
        self.panel, self.status, self.welcome = SlipstreamPanel(), StatusLine(), Welcome()
        self.pair = PairControl(bridge, keeper, self)
        self.session = ChatSession(bridge, self.pair, store, keeper, later, self.transcript, self.composer, parent=self)
        self._drawer = False  # the sidebar lies over the transcript
        self._width_class = ""
        self._build()
        self._wire()
        self._shortcuts()
        self._restyle()
        self._refresh_page()

    # ------------------------------------------------------------ building

    def _build(self) -> None:
        self._title = QLabel()
        self._title.setProperty("role", "section")
        self._title.setMinimumWidth(px(40))
        self._side_button = button("", "icon", "panel-left", self.tr("Chats (Ctrl+B)"))
        self._theme_button = button("", "icon", "moon", self.tr("Light or dark"))
        self._panel_button = button("", "icon", "panel-right", self.tr("Slipstream panel (Ctrl+J)"))
        self._panel_button.setCheckable(True)
        head = QFrame()
        head.setProperty("surface", "canvas")
        head.setFixedHeight(px(48))
        row = QHBoxLayout(head)
        row.setContentsMargins(px(16), 0, px(12), 0)
        row.setSpacing(px(8))
        row.addWidget(self._side_button)
        row.addWidget(self._title, 1)
        row.addWidget(self._theme_button)
        row.addWidget(self._panel_button)
        self._pages = QStackedWidget()
        self._pages.addWidget(self.welcome)
        self._pages.addWidget(self.transcript)
        self._write = QWidget()
        write = QHBoxLayout(self._write)
        write.setContentsMargins(px(16), px(8), px(16), px(16))
        write.addStretch(1)
        write.addWidget(self.composer)
        write.addStretch(1)
        self._middle = QFrame()
        self._middle.setProperty("surface", "canvas")
        column = QVBoxLayout(self._middle)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        for widget in (head, _rule("h")):
            column.addWidget(widget)
        column.addWidget(self._pages, 1)
        column.addWidget(self._write)
        self._body = QWidget()
        self._columns = QHBoxLayout(self._body)
        self._columns.setContentsMargins(0, 0, 0, 0)
        self._columns.setSpacing(0)
        self._side_rule, self._panel_rule = _rule("v"), _rule("v")
        self.sidebar.setFixedWidth(px(_SIDEBAR))
        self.panel.setFixedWidth(px(_PANEL))
        for widget in (self.sidebar, self._side_rule):
            self._columns.addWidget(widget)
        self._columns.addWidget(self._middle, 1)
        self._columns.addWidget(self._panel_rule)
        self._columns.addWidget(self.panel)
        whole = QWidget()
        whole.setProperty("surface", "window")
        outer = QVBoxLayout(whole)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.setSpacing(0)
        outer.addWidget(self._body, 1)
        outer.addWidget(_rule("h"))
        outer.addWidget(self.status)
        self.setCentralWidget(whole)

    def _wire(self) -> None:
        session, pair, panel = self.session, self.pair, self.panel
        self._bridge.batch.connect(self._events)
        self._later.failed.connect(self.store_failed)
        self.sidebar.newAsked.connect(self.new_chat)
        self.sidebar.picked.connect(self._pick_chat)
        self.sidebar.deleteAsked.connect(session.delete_chat)
        self.sidebar.restoreAsked.connect(session.restore_chat)
        self.transcript.linkAsked.connect(lambda target: ask_link(target, self))
        self.welcome.loadAsked.connect(lambda path: pair.load(path))
        self.welcome.openAsked.connect(self.open_model)
        self.welcome.cancelAsked.connect(pair.cancel)
        self.welcome.retryAsked.connect(pair.reload)
        panel.targetPicked.connect(self._pick_target)
        panel.draftPicked.connect(self._pick_draft)
        panel.unloadRequested.connect(pair.unload)
        panel.cancelLoadRequested.connect(pair.cancel)
        panel.speculationChanged.connect(self._speculation_changed)
        panel.detailsToggled.connect(lambda on: self._keeper.change(panel_details_open=on))
        pair.changed.connect(self._pair_changed)
        pair.progressed.connect(self._progressed)
        pair.loaded.connect(self._loaded)
        pair.refused.connect(self._refused)
        pair.gone.connect(self._gone)
        pair.unloaded.connect(panel.set_unloaded)
        session.listChanged.connect(lambda chats: self.sidebar.set_chats(chats, session.chat_id))
        session.chatChanged.connect(self._chat_changed)
        session.replyBegan.connect(panel.begin_reply)
        session.replyBegan.connect(self._refresh_page)
        session.roundsDone.connect(panel.add_rounds)
        session.replyEnded.connect(panel.end_reply)
        session.contextUsed.connect(self._context_used)
        session.announced.connect(self._announce)
        self._side_button.clicked.connect(self.toggle_sidebar)
        self._panel_button.clicked.connect(self.toggle_panel)
        self._theme_button.clicked.connect(self.toggle_theme)
        self._theme.changed.connect(self._restyle)

    def _shortcuts(self) -> None:
        for keys, act in (
            ("Ctrl+N", self.new_chat),
            ("Ctrl+L", self.composer.focus),
            ("Ctrl+B", self.toggle_sidebar),
            ("Ctrl+J", self.toggle_panel),
            ("Ctrl+O", self.open_model),
            ("Ctrl+Shift+D", self._next_mode),
            ("Ctrl+R", lambda: self.session.again()),
            ("Esc", self._escape),
        ):
            QShortcut(QKeySequence(keys), self).activated.connect(act)

    # ------------------------------------------------------------ start and end

    def start(self) -> None:
        """Read the chats, look for models, show the last chat and load the last pair if its files are there."""
        settings = self._keeper.now
        self.panel.set_details_open(settings.panel_details_open)
        self.panel.set_speculation(settings.speculation(settings.target, settings.draft or None))
        if settings.theme in ("system", "light", "dark"):
            self._theme.set_preference(settings.theme)  # type: ignore[arg-type]
        self._panel_button.setChecked(settings.panel_open)
        self._place(force=True)
        self.session.refresh_list()
        if settings.last_chat:
            self.session.show_chat(settings.last_chat)
        self._later.then(self._store.opened, self._store_opened)
        self.look_for_models()
        target, draft = settings.target, settings.draft
        if target and settings.load_at_start:
            self._later.run(
                lambda: (Path(target).is_file(), not draft or Path(draft).is_file()),
                lambda there: self._load_last(target, draft, there),
            )
        self.composer.focus()

    def on_close(self, act: Callable[[], None]) -> None:
        """Have `act` called as the window closes, in the order of these calls."""
        self._closing.append(act)

    def closeEvent(self, event: QCloseEvent) -> None:
        self.composer.save_now()
        place = self.normalGeometry()
        self._keeper.change(window=Geometry(place.x(), place.y(), place.width(), place.height(), self.isMaximized()))
        acts, self._closing = self._closing, []
        for act in acts:
            act()
        super().closeEvent(event)

    def _load_last(self, target: str, draft: str, there: tuple[bool, bool]) -> None:
        if there[0] and self.pair.state == "none":
            self.pair.load(target, draft if there[1] else "")

    def look_for_models(self) -> None:
        """Read the model folders in the background."""
        settings = self._keeper.now
        # Of the recent folders only those a model was opened from; they are few.
        folders = [*self._folders, *map(Path, settings.model_folders), *map(Path, settings.recent_folders)]
        self._later.run(lambda: self._scan(folders), self._got_models)

    def _got_models(self, library: Library) -> None:
        self._models = library.models
        self._starter = find_starter(library.models)
        self.panel.set_models([(str(one.path), one.name, one.size_bytes) for one in library.models])
        self._refresh_page()

    # ------------------------------------------------------------ models

    def open_model(self) -> None:
        recent = self._keeper.now.recent_folders
        path = pick_model(self, recent[0] if recent else "")
        if path:
            self._keeper.put(self._keeper.now.with_recent_folder(str(Path(path).parent)))
            self.pair.load(str(Path(path).absolute()))
            self.look_for_models()

    def _pick_target(self, path: str) -> None:
        self.pair.load(path, self.pair.draft if self.pair.draft != path else "") if path else self.open_model()

    def _pick_draft(self, path: str) -> None:
        if self.pair.target:
            self.pair.load(self.pair.target, path)

    def _events(self, events: Sequence[Event]) -> None:
        mine = (LoadProgress, Loaded, LoadRefused, Unloaded, EngineGone)
        self.session.handle(events)
        for event in events:
            if isinstance(event, mine):
                self.pair.handle(event)

    def _pair_changed(self) -> None:
        words = {
            "none": (self.tr("No model loaded"), "3"),
            "loading": (self.tr("Loading {0}").format(self.pair.name), "warn"),
            "ready": (self.tr("Engine running"), "good"),
            "gone": (self.tr("Engine stopped"), "bad"),
            "refused": (self.tr("Could not load"), "bad"),
        }
        self.status.set_state(*words[self.pair.state])
        self.status.set_loaded(self.pair.info)
        if self.pair.state == "loading":
            self.panel.set_pair(pair_view(self.pair, self._models))
        self._refresh_page()

    def _progressed(self, event: LoadProgress) -> None:
        self.panel.load_progress(event)
        self.welcome.set_progress(event.fraction)

    def _loaded(self, event: Loaded) -> None:
        self.transcript.remove_cards()
        self.panel.set_loaded(event)
        self._context_used(0, event.n_ctx)
        for notice in event.notices:
            self.transcript.add_card(Card("sunken", "info", notice, ""))

    def _refused(self, error: ErrorInfo) -> None:
        self.panel.load_refused(error)
        if not self.session.empty:
            again, pick = button(self.tr("Try again"), "primary"), button(self.tr("Open a model file…"), "secondary")
            again.clicked.connect(self.pair.reload)
            pick.clicked.connect(self.open_model)
            self.transcript.remove_cards()
            self.transcript.add_card(Card("bad", "circle-alert", error.message, error.hint, (again, pick)))
        self._announce(error.message)

    def _gone(self, error: ErrorInfo) -> None:
        self.panel.engine_gone(error)
        if not any(getattr(row, "card", None) for row in self.transcript.rows()[-1:]):
            again = button(self.tr("Load again"), "primary", "play")
            again.clicked.connect(self.pair.reload)
            self.transcript.remove_cards()
            self.transcript.add_card(Card("bad", "unplug", error.message, error.hint, (again,)))

    def _speculation_changed(self, speculation: Speculation) -> None:
        settings = self._keeper.now
        pair = settings.pair(self.pair.target, self.pair.draft or None)
        mode, length, least = speculation.mode, speculation.length, speculation.min_confidence
        changed = replace(settings, mode=mode, length=length, min_confidence=least)
        if pair.target:
            changed = changed.with_pair(replace(pair, mode=mode, length=length, min_confidence=least))
        self._keeper.put(changed)

    def _next_mode(self) -> None:
        now = self._keeper.now.speculation(self.pair.target, self.pair.draft or None)
        order = (Mode.AUTO, Mode.ON, Mode.OFF)
        chosen = replace(now, mode=order[(order.index(now.mode) + 1) % 3])
        self._speculation_changed(chosen)
        self.panel.set_speculation(chosen)
        self._announce(self.tr("Speculation: {0}").format(chosen.mode.value))

    # ------------------------------------------------------------ chats

    def new_chat(self) -> None:
        self.session.new_chat()
        self.sidebar.set_chats(self.session.chats, "")
        self.composer.focus()

    def _pick_chat(self, chat_id: str) -> None:
        self.session.show_chat(chat_id)
        if self._drawer:
            self.toggle_sidebar()

    def _chat_changed(self) -> None:
        self._title.setText(self._title.fontMetrics().elidedText(self.session.title, Qt.TextElideMode.ElideRight, 560))
        self.sidebar.set_chats(self.session.chats, self.session.chat_id)
        self._refresh_page()

    def _refresh_page(self) -> None:
        """The welcome page while the chat is empty, the transcript otherwise."""
        empty = self.session.empty and not (self.session.chat_id and self.session.opening)
        self._pages.setCurrentWidget(self.welcome if empty else self.transcript)
        if not empty:
            return
        if self.pair.state == "loading":
            self.welcome.show_loading(self.pair.name)
            self.welcome.set_progress(self.pair.fraction)
        elif self.pair.ready:
            self.welcome.show_ready(self.pair.name)
        else:
            self.welcome.show_choice(self._starter, self._models, self.pair.error)

    def _context_used(self, used: int, size: int) -> None:
        self.composer.set_context(used, size)
        self.status.set_context(used, size)

    def _store_opened(self, notices: Sequence[str]) -> None:
        for notice in notices:
            self.say("warn", notice)

    def store_failed(self, error: SlipstreamError) -> None:
        self.say("warn", error.message, error.hint)

    def say(self, tone: str, title: str, text: str = "") -> None:
        """A card above the composer that stays until it is closed."""
        close = button(self.tr("Close"), "secondary")
        card = Card(tone, "triangle-alert", title, text, (close,))
        close.clicked.connect(card.deleteLater)
        layout = self._middle.layout()
        assert isinstance(layout, QVBoxLayout)
        layout.insertWidget(layout.count() - 1, card)

    # ------------------------------------------------------------ looks

    def toggle_sidebar(self) -> None:
        shown = not self.sidebar.isHidden()
        self.sidebar.setVisible(not shown)
        if self._width_class == "wide":
            self._keeper.change(sidebar_open=not shown)
        self._place()

    def toggle_panel(self) -> None:
        shown = not self.panel.isHidden()
        self.panel.setVisible(not shown)
        if self._width_class != "narrow":
            self._keeper.change(panel_open=not shown)
        self._place()

    def toggle_theme(self) -> None:
        wanted = "light" if self._theme.theme.dark else "dark"
        self._theme.set_preference(wanted)  # type: ignore[arg-type]
        self._keeper.change(theme=wanted)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._place()

    def _place(self, force: bool = False) -> None:
        """Columns by width: all, then the sidebar as a drawer, then the panel only when asked for."""
        width = self.width()
        now = "wide" if width >= px(_ALL_COLUMNS) else "middle" if width >= px(_NO_PANEL) else "narrow"
        if now != self._width_class or force:
            self._width_class = now
            settings = self._keeper.now
            self.sidebar.setVisible(now == "wide" and settings.sidebar_open)
            self.panel.setVisible(now != "narrow" and settings.panel_open)
        drawer = now != "wide"
        if drawer != self._drawer:
            self._drawer = drawer
            if drawer:
                self._columns.removeWidget(self.sidebar)
            else:
                self._columns.insertWidget(0, self.sidebar)
        if drawer:
            self.sidebar.setGeometry(0, px(49), px(_SIDEBAR), self._body.height() - px(49))
            self.sidebar.raise_()
        self._side_rule.setVisible(not drawer and not self.sidebar.isHidden())
        self._panel_rule.setVisible(not self.panel.isHidden())
        self._panel_button.setChecked(not self.panel.isHidden())
        space = width - (0 if self.panel.isHidden() else px(_PANEL))
        space -= px(_SIDEBAR) if not drawer and not self.sidebar.isHidden() else 0
        self.composer.setFixedWidth(min(px(704), space - px(32)))

    def _restyle(self, *_: object) -> None:
        self.setWindowIcon(logo_icon())
        self._side_button.setIcon(icon("panel-left", "text.2", 18))
        self._panel_button.setIcon(icon("panel-right", "text.2", 18))
        self._theme_button.setIcon(icon("sun" if self._theme.theme.dark else "moon", "text.2", 18))
        for part in (self.sidebar, self.transcript, self.composer, self.status, self.welcome):
            part.restyle()

    def _escape(self) -> None:
        if self._drawer and not self.sidebar.isHidden():
            self.toggle_sidebar()
        else:
            self.session.stop()

    def _announce(self, words: str) -> None:
        QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self, words))


def _rule(direction: str) -> QFrame:
    made = QFrame()
    made.setProperty("line", direction)
    return made
