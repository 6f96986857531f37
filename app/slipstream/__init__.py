"""Slipstream: a desktop window for chatting with a local LLM that speculates."""

__version__ = "0.1.0"
