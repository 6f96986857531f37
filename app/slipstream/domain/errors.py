"""Errors that reach the user as a sentence.

A `SlipstreamError` is the environment's fault (a missing file, too little memory) and carries what
happened, what to do about it and a technical detail for the log. Anything else that escapes is a bug of ours.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ErrorInfo:
    """An error as data, so that it can cross the process boundary and be shown anywhere."""

    kind: str
    message: str
    hint: str = ""
    detail: str = ""

    def sentence(self) -> str:
        """What happened and what to do, in one line."""
        return f"{self.message} {self.hint}".strip()


class SlipstreamError(Exception):
    """Base of every expected failure. `message`: what happened; `hint`: what to do; `detail`: for the log."""

    def __init__(self, message: str, hint: str = "", detail: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.detail = detail

    def info(self) -> ErrorInfo:
        return ErrorInfo(type(self).__name__, self.message, self.hint, self.detail)


class ModelFileMissing(SlipstreamError):
    """The model file is not where it is said to be, or cannot be read."""


class NotAGguf(SlipstreamError):
    """The file is not a GGUF, or a damaged one."""


class UnsupportedArchitecture(SlipstreamError):
    """This llama.cpp does not know the model's architecture."""


class OutOfMemory(SlipstreamError):
    """Memory ran out while loading a model or making a context."""


class LoadFailed(SlipstreamError):
    """llama.cpp refused the model for another reason; `detail` holds its log."""


class Cancelled(SlipstreamError):
    """The user stopped what was going on."""


class PairMismatch(SlipstreamError):
    """The draft cannot serve this target; `message` says which rule failed and where."""


class ContextFull(SlipstreamError):
    """The conversation does not fit in the context."""


class TemplateFailed(SlipstreamError):
    """The model's chat template could not be used."""


class DecodeFailed(SlipstreamError):
    """llama.cpp could not decode a batch."""


class EngineDied(SlipstreamError):
    """The engine process ended without being asked to."""


class StoreFailed(SlipstreamError):
    """The chat database or the settings file could not be read or written."""
