"""The style sheet of a theme, generated from its tokens.

Widgets choose their look with dynamic properties:

- buttons `kind`: "primary", "secondary", "ghost", "danger", "icon", "link", "toggle", "row", "rail", "segment",
  "disclosure"; `fit`: "small", "large", also on spin boxes (QWidget owns the name `size`);
- frames `surface`: "canvas", "window", "raised", "sunken", "card", "popover", "composer" (with `focused`), "good",
  "warn", "bad"; `line`: "h", "v";
- labels `role`: those of `fonts.ROLES` and "badge"; `tone`: "1", "2", "3", "good", "warn", "bad";
- fields `error`, text fields `bare`, progress bars `state`: "paused", "warn", "bad".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from slipstream.ui.theme.fonts import MONO, ROLES, px
from slipstream.ui.theme.tokens import Theme

# name used below: (icon, token)
GLYPHS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "down": ("chevron-down", "text.2"),
        "up": ("chevron-up", "text.2"),
        "right": ("chevron-right", "text.2"),
        "check": ("check", "on.accent"),
        "tick": ("check", "accent.text"),
    }
)

_BASE = """
* { outline: none; }
QMainWindow, QDialog { background: {bg.window}; }
QWidget { color: {text.1}; }
QToolTip { background: {bg.raised}; color: {text.1}; border: 1px solid {line.control}; padding: 6px 8px; }

QFrame[surface="window"], QWidget[surface="window"] { background: {bg.window}; border: none; }
QFrame[surface="canvas"], QWidget[surface="canvas"] { background: {bg.canvas}; border: none; }
QFrame[surface="raised"], QWidget[surface="raised"] { background: {bg.raised}; border: none; }
QFrame[surface="sunken"], QWidget[surface="sunken"] { background: {bg.sunken}; border: none; border-radius: 8px; }
QFrame[surface="card"] { background: {bg.raised}; border: 1px solid {line.subtle}; border-radius: 8px; }
QFrame[surface="popover"] { background: {bg.raised}; border: 1px solid {line.control}; border-radius: 8px; }
QFrame[surface="composer"] { background: {bg.raised}; border: 1px solid {line.control}; border-radius: 12px; }
QFrame[surface="composer"][focused="true"] { border: 1px solid {focus}; }
QFrame[surface="good"] { background: {accent.tint}; border: none; border-radius: 8px; }
QFrame[surface="warn"] { background: {warn.tint}; border: none; border-radius: 8px; }
QFrame[surface="bad"] { background: {bad.tint}; border: none; border-radius: 8px; }
QFrame[line="h"] { background: {line.subtle}; border: none; min-height: 1px; max-height: 1px; }
QFrame[line="v"] { background: {line.subtle}; border: none; min-width: 1px; max-width: 1px; }

QLabel { background: transparent; }
"""

_BUTTONS = """
QPushButton, QToolButton {
  min-height: {control}px; padding: 0 11px; border: 1px solid {line.control}; border-radius: 6px;
  background: transparent; color: {text.1}; font-weight: 500;
}
QPushButton:hover, QToolButton:hover { background: {bg.hover}; }
QPushButton:pressed, QToolButton:pressed { background: {bg.selected}; }
QPushButton:focus, QToolButton:focus { border: 2px solid {focus}; padding: 0 10px; min-height: {control_focus}px; }
QPushButton:disabled, QToolButton:disabled { color: {text.3}; border-color: {line.subtle}; background: transparent; }
QPushButton[fit="small"], QToolButton[fit="small"] { min-height: {small}px; padding: 0 9px; }
QPushButton[fit="small"]:focus { min-height: {small_focus}px; padding: 0 8px; }
QPushButton[fit="large"] { min-height: {large}px; padding: 0 15px; }

QPushButton[kind="primary"], QToolButton[kind="primary"] {
  background: {accent}; color: {on.accent}; border-color: {accent};
}
QPushButton[kind="primary"]:hover, QToolButton[kind="primary"]:hover {
  background: {accent.hover}; border-color: {accent.hover};
}
QPushButton[kind="primary"]:pressed, QToolButton[kind="primary"]:pressed {
  background: {accent.press}; border-color: {accent.press};
}
QPushButton[kind="primary"]:focus, QToolButton[kind="primary"]:focus { border: 2px solid {text.1}; }
QPushButton[kind="primary"]:disabled, QToolButton[kind="primary"]:disabled {
  background: transparent; color: {text.3}; border: 1px solid {line.subtle};
}
QPushButton[kind="danger"] { background: {bad}; color: {on.bad}; border-color: {bad}; }
QPushButton[kind="danger"]:hover { background: {bad.text}; border-color: {bad.text}; }
QPushButton[kind="danger"]:focus { border: 2px solid {text.1}; }
QPushButton[kind="danger"]:disabled { background: transparent; color: {text.3}; border: 1px solid {line.subtle}; }

QPushButton[kind="ghost"], QToolButton[kind="ghost"] { border-color: transparent; color: {text.2}; }
QPushButton[kind="ghost"]:hover, QToolButton[kind="ghost"]:hover { background: {bg.hover}; color: {text.1}; }
QPushButton[kind="ghost"]:focus, QToolButton[kind="ghost"]:focus { border: 2px solid {focus}; }

QPushButton[kind="icon"], QToolButton[kind="icon"] {
  border-color: transparent; padding: 0; min-width: {control}px; max-width: {control}px;
  min-height: {control}px; max-height: {control}px;
}
QPushButton[kind="icon"]:focus, QToolButton[kind="icon"]:focus {
  border: 2px solid {focus}; padding: 0; min-width: {control_focus}px; max-width: {control_focus}px;
  min-height: {control_focus}px; max-height: {control_focus}px;
}
QPushButton[kind="icon"]:checked, QToolButton[kind="icon"]:checked { background: {bg.selected}; }
QPushButton[kind="icon"][fit="small"], QToolButton[kind="icon"][fit="small"] {
  min-width: {small}px; max-width: {small}px; min-height: {small}px; max-height: {small}px; padding: 0;
}
QPushButton[kind="icon"][fit="small"]:focus, QToolButton[kind="icon"][fit="small"]:focus {
  min-width: {small_focus}px; max-width: {small_focus}px; min-height: {small_focus}px; max-height: {small_focus}px;
}
QToolButton::menu-indicator, QPushButton::menu-indicator { image: none; width: 0; }

QPushButton[kind="link"] {
  border: none; padding: 0 2px; min-height: 0; color: {accent.text}; text-decoration: underline; border-radius: 4px;
  font-size: {f.secondary}px;
}
QPushButton[kind="link"]:hover { color: {text.1}; background: transparent; }
QPushButton[kind="link"]:focus { border: 2px solid {focus}; padding: 0; min-height: 0; }

QPushButton[kind="toggle"]:checked, QToolButton[kind="toggle"]:checked {
  background: {accent.tint}; color: {accent.text}; border-color: {accent.tint};
}
QPushButton[kind="toggle"], QToolButton[kind="toggle"] { border-color: {line.subtle}; }
QPushButton[kind="toggle"]:focus, QToolButton[kind="toggle"]:focus { border: 2px solid {focus}; }

QPushButton[kind="segment"] {
  border: 1px solid {line.control}; border-radius: 0; min-height: {segment}px; padding: 0 11px; color: {text.2};
  margin-left: -1px;
}
QPushButton[kind="segment"][place="first"] {
  border-top-left-radius: 6px; border-bottom-left-radius: 6px; margin-left: 0;
}
QPushButton[kind="segment"][place="last"] { border-top-right-radius: 6px; border-bottom-right-radius: 6px; }
QPushButton[kind="segment"]:hover { background: {bg.hover}; color: {text.1}; }
QPushButton[kind="segment"]:checked { background: {accent.tint}; color: {accent.text}; font-weight: 600; }
QPushButton[kind="segment"]:focus {
  border: 2px solid {focus}; padding: 0 10px; min-height: {segment_focus}px;
}
QPushButton[kind="segment"]:disabled { color: {text.3}; border-color: {line.subtle}; background: transparent; }

QPushButton[kind="disclosure"] {
  border: 2px solid transparent; padding: 0; text-align: left; color: {text.2}; min-height: {small}px;
}
QPushButton[kind="disclosure"]:hover { background: transparent; color: {text.1}; }
QPushButton[kind="disclosure"]:focus { border: 2px solid {focus}; padding: 0; min-height: {small}px; }

QPushButton[kind="row"], QToolButton[kind="row"] {
  border-color: transparent; text-align: left; padding: 0 7px; font-weight: 400; color: {text.2};
}
QPushButton[kind="row"]:hover, QToolButton[kind="row"]:hover { background: {bg.hover}; color: {text.1}; }
QPushButton[kind="row"]:checked, QToolButton[kind="row"]:checked { background: {bg.selected}; color: {text.1}; }
QPushButton[kind="row"]:focus, QToolButton[kind="row"]:focus { border: 2px solid {focus}; padding: 0 6px; }

QToolButton[kind="rail"] {
  border: none; border-radius: 8px; padding: 6px 0 4px 0; color: {text.2}; font-size: {f.caption}px; font-weight: 500;
  min-height: 0;
}
QToolButton[kind="rail"]:hover { background: {bg.hover}; color: {text.1}; }
QToolButton[kind="rail"]:checked { background: {bg.selected}; color: {accent.text}; }
QToolButton[kind="rail"]:focus { border: 2px solid {focus}; padding: 4px 0 2px 0; }
"""

_FIELDS = """
QLineEdit, QSpinBox, QDoubleSpinBox, QComboBox, QPlainTextEdit, QTextEdit {
  background: {bg.raised}; color: {text.1}; border: 1px solid {line.control}; border-radius: 6px; padding: 0 8px;
  selection-background-color: {accent}; selection-color: {on.accent};
}
QLineEdit, QSpinBox, QDoubleSpinBox, QComboBox { min-height: {control}px; }
QPlainTextEdit, QTextEdit { padding: 6px 8px; }
QLineEdit:focus, QSpinBox:focus, QDoubleSpinBox:focus, QComboBox:focus, QPlainTextEdit:focus, QTextEdit:focus {
  border: 2px solid {focus}; padding: 0 7px;
}
QLineEdit:focus, QSpinBox:focus, QDoubleSpinBox:focus, QComboBox:focus { min-height: {control_focus}px; }
QPlainTextEdit:focus, QTextEdit:focus { padding: 5px 7px; }
QLineEdit[error="true"], QSpinBox[error="true"], QPlainTextEdit[error="true"] { border: 1px solid {bad}; }
QLineEdit:disabled, QSpinBox:disabled, QDoubleSpinBox:disabled, QComboBox:disabled, QPlainTextEdit:disabled {
  color: {text.3}; border-color: {line.subtle};
}
QTextBrowser, QTextEdit[bare="true"], QPlainTextEdit[bare="true"] {
  background: transparent; border: none; padding: 0; border-radius: 0;
}
QTextBrowser:focus, QTextEdit[bare="true"]:focus, QPlainTextEdit[bare="true"]:focus { border: none; padding: 0; }
QComboBox::drop-down { border: none; width: 24px; }
QComboBox::down-arrow { {img.down} width: 14px; height: 14px; }
QComboBox QAbstractItemView {
  background: {bg.raised}; border: 1px solid {line.control}; padding: 4px; outline: none;
  selection-background-color: {bg.selected}; selection-color: {text.1};
}
QSpinBox::up-button, QDoubleSpinBox::up-button {
  subcontrol-origin: border; subcontrol-position: top right; width: 20px; border: none; background: transparent;
}
QSpinBox::down-button, QDoubleSpinBox::down-button {
  subcontrol-origin: border; subcontrol-position: bottom right; width: 20px; border: none; background: transparent;
}
QSpinBox::up-arrow, QDoubleSpinBox::up-arrow { {img.up} width: 10px; height: 10px; }
QSpinBox::down-arrow, QDoubleSpinBox::down-arrow { {img.down} width: 10px; height: 10px; }
QSpinBox[fit="small"] { min-height: {small}px; padding: 0 4px 0 8px; }
QSpinBox[fit="small"]:focus { min-height: {small_focus}px; padding: 0 3px 0 7px; }

QCheckBox, QRadioButton { spacing: 8px; background: transparent; }
QCheckBox::indicator, QRadioButton::indicator {
  width: 16px; height: 16px; border: 1px solid {line.control}; background: {bg.raised};
}
QCheckBox::indicator { border-radius: 4px; }
QRadioButton::indicator { border-radius: 9px; }
QCheckBox::indicator:checked { background: {accent}; border-color: {accent}; {img.check} }
QRadioButton::indicator:checked { border: 5px solid {accent}; width: 8px; height: 8px; background: {on.accent}; }
QCheckBox::indicator:focus, QRadioButton::indicator:focus { border-color: {focus}; }
QCheckBox:focus, QRadioButton:focus { color: {accent.text}; }
QCheckBox:disabled, QRadioButton:disabled { color: {text.3}; }

QSlider::groove:horizontal { height: 4px; border-radius: 2px; background: {track}; }
QSlider::sub-page:horizontal { height: 4px; border-radius: 2px; background: {accent}; }
QSlider::handle:horizontal {
  width: 16px; height: 16px; margin: -6px 0; border-radius: 8px; background: {accent}; border: none;
}
QSlider::handle:horizontal:hover { background: {accent.hover}; }
QSlider:focus::handle:horizontal { border: 2px solid {text.1}; width: 12px; height: 12px; }

QProgressBar {
  background: {track}; border: none; border-radius: 3px; min-height: 6px; max-height: 6px; text-align: center;
  color: transparent;
}
QProgressBar::chunk { background: {accent}; border-radius: 3px; }
QProgressBar[state="paused"]::chunk { background: {neutral.b}; }
QProgressBar[state="warn"]::chunk { background: {warn}; }
QProgressBar[state="bad"]::chunk { background: {bad}; }
"""

_VIEWS = """
QAbstractScrollArea { border: none; }
QScrollArea, QScrollArea > QWidget > QWidget[surface=""] { background: transparent; border: none; }
QScrollBar:vertical { background: transparent; width: 12px; margin: 0; }
QScrollBar:horizontal { background: transparent; height: 12px; margin: 0; }
QScrollBar::handle { background: {scroll}; border-radius: 3px; }
QScrollBar::handle:vertical { min-height: 32px; margin: 2px 3px; }
QScrollBar::handle:horizontal { min-width: 32px; margin: 3px 2px; }
QScrollBar::handle:hover { background: {line.control}; }
QScrollBar::add-line, QScrollBar::sub-line { width: 0; height: 0; border: none; background: none; }
QScrollBar::add-page, QScrollBar::sub-page { background: none; }

QListView, QTreeView, QTableView {
  background: transparent; border: none; outline: none; selection-background-color: {bg.selected};
  selection-color: {text.1}; alternate-background-color: {bg.sunken}; gridline-color: {line.subtle};
}
QListView::item, QTreeView::item { min-height: {row}px; border-radius: 6px; padding: 0 6px; color: {text.2}; }
QListView::item:hover, QTreeView::item:hover { background: {bg.hover}; }
QListView::item:selected, QTreeView::item:selected { background: {bg.selected}; color: {text.1}; }
QListView:focus::item:selected, QTreeView:focus::item:selected { border: 2px solid {focus}; padding: 0 4px; }
QHeaderView::section {
  background: {bg.window}; color: {text.2}; border: none; border-bottom: 1px solid {line.subtle}; padding: 6px 8px;
}

QMenu { background: {bg.raised}; border: 1px solid {line.control}; border-radius: 8px; padding: 4px; }
QMenu::item { padding: 6px 24px 6px 12px; border-radius: 6px; color: {text.1}; background: transparent; }
QMenu::item:selected { background: {bg.selected}; }
QMenu::item:disabled { color: {text.3}; }
QMenu::icon { padding-left: 8px; }
QMenu::separator { height: 1px; background: {line.subtle}; margin: 4px 8px; }
QMenu::indicator { width: 14px; height: 14px; padding-left: 6px; }
QMenu::indicator:checked { {img.tick} }
QMenuBar { background: {bg.window}; }
QMenuBar::item { padding: 4px 8px; background: transparent; border-radius: 4px; }
QMenuBar::item:selected { background: {bg.hover}; }

QSplitter::handle { background: {line.subtle}; }
QSplitter::handle:horizontal { width: 1px; }
QSplitter::handle:vertical { height: 1px; }
QStatusBar { background: {bg.window}; border-top: 1px solid {line.subtle}; color: {text.2}; }
QStatusBar::item { border: none; }
QStatusBar QLabel { color: {text.2}; font-size: {f.secondary}px; }
QGroupBox { border: 1px solid {line.subtle}; border-radius: 8px; margin-top: 8px; padding: 12px; }
QGroupBox::title { subcontrol-origin: margin; left: 12px; color: {text.2}; }
QTabBar::tab { padding: 6px 12px; color: {text.2}; border-bottom: 2px solid transparent; }
QTabBar::tab:selected { color: {text.1}; border-bottom: 2px solid {accent}; }
QTabWidget::pane { border: none; border-top: 1px solid {line.subtle}; }
"""

_FIELD = re.compile(r"\{([a-z][\w.]*)\}")


def stylesheet(theme: Theme, glyphs: Mapping[str, str] | None = None) -> str:
    """The whole style sheet of a theme at the present text scale. `glyphs` maps the names of `GLYPHS` to files.

    Raises KeyError where a rule names a token that does not exist.
    """
    values = {name: theme.css(name) for name in theme.colors}
    for name, height in (("control", 30), ("small", 26), ("large", 38), ("row", 32), ("segment", 22)):
        values[name] = str(px(height))
        values[f"{name}_focus"] = str(px(height) - 2)
    values["badge"] = str(px(12) + 10)
    values |= {f"f.{role}": str(max(1, px(size))) for role, (_, size, _) in ROLES.items()}
    values["scroll"] = theme.css("track" if not theme.high_contrast else "line.control")
    values["on.bad"] = "#1F0704" if theme.dark else "#FFFFFF"
    files = glyphs or {}
    for name in GLYPHS:
        values[f"img.{name}"] = f'image: url("{files[name]}");' if name in files else ""
    rules = _BASE + _roles() + _BUTTONS + _FIELDS + _VIEWS
    return _FIELD.sub(lambda match: values[match[1]], rules)


def _roles() -> str:
    """One rule a text role: QSS sets size and weight, so that labels follow the theme and the text scale."""
    tones = {"caption": "{text.3}", "secondary": "{text.2}"}
    lines = []
    for role, (family, _, weight) in ROLES.items():
        color = f" color: {tones[role]};" if role in tones else ""
        face = f' font-family: "{MONO}";' if family == MONO else ""
        lines.append(
            f'QLabel[role="{role}"] {{ font-size: {{f.{role}}}px; font-weight: {weight.value};{color}{face} }}'
        )
    chip = (
        'QLabel[role="chip"], QLabel[role="badge"] {'
        " background: {track}; color: {text.2}; border-radius: 4px; padding: 2px 6px; }\n"
        'QLabel[role="badge"] { font-size: {f.caption}px; font-weight: 600; }\n'
        'QLabel[role="badge"][iconic="true"] { padding: 2px 6px 2px {badge}px; }'
    )
    beds = "\n".join(
        f'QLabel[role="badge"][tone="{tone}"] {{ background: {{{bed}}}; }}'
        for tone, bed in (("good", "accent.tint"), ("warn", "warn.tint"), ("bad", "bad.tint"))
    )
    # Later rules win: an explicit tone comes after the colour of a role.
    tone = "\n".join(
        f'QLabel[tone="{name}"] {{ color: {{{token}}}; }}'
        for name, token in (
            ("1", "text.1"),
            ("2", "text.2"),
            ("3", "text.3"),
            ("good", "accent.text"),
            ("warn", "warn.text"),
            ("bad", "bad.text"),
        )
    )
    return "\n".join((*lines, chip, beds, tone, ""))
