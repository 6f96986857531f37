"""Drive an engine host the way a window does, and collect what comes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from slipstream.domain.chat import Message
from slipstream.domain.protocol import (
    Command,
    EngineGone,
    EngineSettings,
    Event,
    Failed,
    Finished,
    Generate,
    Load,
    Loaded,
    LoadRefused,
    RoundDone,
    Text,
)
from slipstream.domain.sampling import Sampling
from slipstream.domain.speculation import Mode, Speculation
from slipstream.engine.host import EngineHost

GREEDY = Sampling(temperature=0)
PLAIN = Speculation(Mode.OFF)
_END = Loaded | LoadRefused | Finished | Failed | EngineGone


@dataclass
class Answer:
    events: list[Event] = field(default_factory=list)

    @property
    def last(self) -> Event:
        return self.events[-1]

    @property
    def text(self) -> str:
        return "".join(e.text for e in self.events if isinstance(e, Text) and e.channel == "answer")

    @property
    def rounds(self) -> list[RoundDone]:
        return [e for e in self.events if isinstance(e, RoundDone)]

    @property
    def finished(self) -> Finished:
        assert isinstance(self.last, Finished), self.last
        return self.last


def until_end(host: EngineHost, limit_s: float = 120, on_event: Callable[[Event], None] | None = None) -> Answer:
    answer, deadline = Answer(), time.monotonic() + limit_s
    while time.monotonic() < deadline:
        for event in host.wait(0.5):
            answer.events.append(event)
            if on_event is not None:
                on_event(event)
            if isinstance(event, _END):
                return answer
    raise AssertionError(f"no end within {limit_s} s after {answer.events[-3:]}")


def load(host: EngineHost, target: object, draft: object = None, **settings: object) -> Loaded:
    made = replace(EngineSettings(n_ctx=512, threads=2), **settings)  # type: ignore[arg-type]
    host.send(Load(1, str(target), str(draft) if draft else None, made))
    last = until_end(host).last
    assert isinstance(last, Loaded), last
    return last


def say(*texts: str) -> tuple[Message, ...]:
    """Turns from the user and the assistant by turns, the user first."""
    return tuple(Message("user" if i % 2 == 0 else "assistant", text) for i, text in enumerate(texts))


def ask(host: EngineHost, command: Command, on_event: Callable[[Event], None] | None = None) -> Answer:
    host.send(command)
    return until_end(host, on_event=on_event)


def generate(*texts: str, request_id: int = 1, **fields: object) -> Generate:
    values: dict[str, object] = {"sampling": GREEDY, "max_tokens": 48, "fresh": True} | fields
    return Generate(request_id, say(*texts), **values)  # type: ignore[arg-type]
