"""The process that runs a model's chat template.

A template is a program that came with the model, so it runs here: sandboxed, without the parent's memory or
secrets, and where it can be killed. Speaks length-prefixed JSON (4 bytes, big-endian) over stdin and stdout:
`{"ready": true}` first, then one answer a request. Imports Jinja and the standard library only, to start fast.

    request  {"source", "variables", "output_limit" (characters), "limit_s"}
    answer   {"prompt"} or {"error", "kind"}; kind "template" (its own fault or wish) or "limit" (grew too big)
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import signal
import sys
from datetime import datetime
from typing import Any, BinaryIO, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

MEMORY_ABOVE_START_BYTES = 1 << 30
FILE_LIMIT_BYTES = 64 << 10  # stderr may be a file; nothing else is written
GRACE_S = 3.0  # the parent kills first; this is for when the parent is gone


class _GenerationTag(Extension):
    """`{% generation %}` marks training targets in some templates; for rendering its body is all that counts."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _TooBig(Exception):
    pass


def _raise_exception(message: object = "") -> NoReturn:
    raise jinja2.TemplateError(str(message))


def _strftime_now(format: str) -> str:
    return datetime.now().strftime(format)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Plain JSON: Jinja's own filter escapes HTML, which models were not trained on."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def make_environment() -> ImmutableSandboxedEnvironment:
    """Jinja set up the way model authors test their templates (Hugging Face transformers)."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", _GenerationTag]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment


class Renderer:
    """Renders requests, keeping the last template compiled."""

    def __init__(self) -> None:
        self._environment = make_environment()
        self._source: str | None = None
        self._template: jinja2.Template | None = None

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Never raises: whatever a template does becomes an answer."""
        try:
            return {"prompt": self._render(request["source"], request["variables"], request["output_limit"])}
        except _TooBig:
            return {"error": "it writes too much text", "kind": "limit"}
        except MemoryError:
            return {"error": "it needs too much memory", "kind": "limit"}
        except RecursionError:
            return {"error": "it calls itself without end", "kind": "limit"}
        except Exception as error:
            return {"error": _describe(error), "kind": "template"}

    def _render(self, source: str, variables: dict[str, Any], output_limit: int) -> str:
        if self._template is None or source != self._source:
            self._template = self._environment.from_string(source)
            self._source = source
        parts: list[str] = []
        size = 0
        for part in self._template.generate(**variables):
            size += len(part)
            if size > output_limit:
                raise _TooBig
            parts.append(part)
        return "".join(parts)


def _describe(error: Exception) -> str:
    try:
        text = str(error)
    except Exception:
        text = ""
    line = f"line {error.lineno}: " if isinstance(error, jinja2.TemplateSyntaxError) else ""
    return f"{line}{text or type(error).__name__}"[:1000]


def read_frame(stream: BinaryIO) -> bytes | None:
    """One frame's body; None at the end of the stream."""
    head = stream.read(4)
    if len(head) < 4:
        return None
    size = int.from_bytes(head, "big")
    body = stream.read(size)
    return body if len(body) == size else None


def write_frame(stream: BinaryIO, value: dict[str, Any]) -> None:
    """Pure ASCII JSON, so that lone surrogates in a chat's text pass too."""
    body = json.dumps(value).encode("ascii")
    stream.write(len(body).to_bytes(4, "big") + body)
    stream.flush()


def _limit_resources() -> None:
    """Bound memory and files where the system can (POSIX). The parent watches memory and time besides."""
    if sys.platform == "win32":
        return
    import resource

    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_LIMIT_BYTES, FILE_LIMIT_BYTES))
    with contextlib.suppress(OSError, ValueError):  # no /proc on macOS, which ignores RLIMIT_AS anyway
        with open("/proc/self/statm", encoding="ascii") as statm:
            now_bytes = int(statm.read().split()[0]) * resource.getpagesize()
        limit = now_bytes + MEMORY_ABOVE_START_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def main() -> int:
    """Serve until the parent closes our input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C in a terminal reaches the group; the parent decides
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    quiet = os.open(os.devnull, os.O_RDWR)
    os.dup2(quiet, 0)
    os.dup2(quiet, 1)  # nothing printed by accident gets between the frames
    renderer = Renderer()
    renderer.answer({"source": "{{ missing.attribute }}", "variables": {}, "output_limit": 1})  # lazy imports, now
    _limit_resources()
    write_frame(sink, {"ready": True})
    with open(os.devnull, "w", encoding="ascii") as nowhere:
        while (body := read_frame(source)) is not None:
            request = json.loads(body)
            # A C thread of its own, so it ends us even inside one endless C call whose caller is long gone.
            faulthandler.dump_traceback_later(float(request["limit_s"]) + GRACE_S, exit=True, file=nowhere)
            answer = renderer.answer(request)
            faulthandler.cancel_dump_traceback_later()
            write_frame(sink, answer)
    return 0


if __name__ == "__main__":
    sys.exit(main())
