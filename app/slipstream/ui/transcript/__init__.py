"""The transcript: Markdown as widgets, messages, and the column that shows them."""

from __future__ import annotations

from slipstream.ui.transcript.markdown import MarkdownView
from slipstream.ui.transcript.message import AssistantMessage, Card, UserMessage, button, figures_of
from slipstream.ui.transcript.view import Transcript

__all__ = ["AssistantMessage", "Card", "MarkdownView", "Transcript", "UserMessage", "button", "figures_of"]
