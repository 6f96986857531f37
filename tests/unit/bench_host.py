"""An engine that answers from a script: what the figures must come out as is known beforehand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from slipstream.domain.errors import ErrorInfo
from slipstream.domain.protocol import (
    Cancel,
    Command,
    EngineGone,
    Event,
    Failed,
    Finished,
    FinishReason,
    Generate,
    Load,
    Loaded,
    LoadRefused,
    ModelInfo,
    RenderedPrompt,
    RenderPrompt,
    RoundDone,
    Span,
    Text,
)
from slipstream.domain.rounds import Round, Totals
from slipstream.domain.sampling import Sampling
from slipstream.domain.speculation import Mode

TARGET = ModelInfo("/m/big.gguf", "Big", "llama", "llama 7B Q4_K", 7_000_000_000, 4_000_000_000, 32, 32_000, 4096)
DRAFT = ModelInfo("/m/small.gguf", "Small", "llama", "llama 0.2B Q8_0", 200_000_000, 200_000_000, 12, 32_000, 4096)


def totals(rounds: int, k: int, accepted: int, *, round_s: float, draft_s: float = 0.0, first_s: float = 0.5) -> Totals:
    """A reply of equal rounds, each verifying k tokens and keeping the first `accepted` of them."""
    sums = Totals(tokens=1, first_tokens=1, prompt_tokens=20, prompt_s=0.4, first_token_s=first_s)
    for number in range(1, rounds + 1):
        sums = sums.add(
            Round(
                number, "model" if k else "", k, k, accepted, accepted + 1, draft_s=draft_s,
                verify_s=round_s - draft_s, at_s=number * round_s,
            )
        )  # fmt: skip
    return replace(sums, elapsed_s=first_s + sums.decode_s)


def plain_or_speculating(command: Generate) -> Totals:
    """Plain steps take 0.1 s. A round of k guesses takes 0.1 + 0.02·k s and keeps all but one of them."""
    if command.speculation.mode is Mode.OFF:
        return totals(24, 0, 0, round_s=0.1)
    k = 4 if command.speculation.mode is Mode.AUTO else command.speculation.length
    return totals(24 // k, k, k - 1, round_s=0.1 + 0.02 * k, draft_s=0.01 * k)


class ScriptedHost:
    """`answer` gives the totals of a reply, or an event that ends it otherwise."""

    def __init__(
        self,
        answer: Callable[[Generate], Totals | ErrorInfo | EngineGone] = plain_or_speculating,
        *,
        draft: ModelInfo | None = DRAFT,
        refuse: ErrorInfo | None = None,
        hang: bool = False,
    ) -> None:
        self.sent: list[Command] = []
        self.closed = False
        self.on_wait: Callable[[], None] = lambda: None
        self._answer, self._draft, self._refuse, self._hang = answer, draft, refuse, hang
        self._events: list[Event] = []
        self._open: Generate | None = None

    @property
    def asked(self) -> list[Generate]:
        return [command for command in self.sent if isinstance(command, Generate)]

    def send(self, command: Command) -> None:
        self.sent.append(command)
        match command:
            case Load() if self._refuse is not None:
                self._events.append(LoadRefused(command.load_id, self._refuse))
            case Load():
                drafters = ("ngram", "model") if command.draft else ("ngram",)
                self._events.append(
                    Loaded(
                        command.load_id, TARGET, self._draft if command.draft else None, 4096, 2, drafters, (), {},
                        Sampling(temperature=0.6), 1.0, False,
                    )
                )  # fmt: skip
            case RenderPrompt():
                self._events.append(RenderedPrompt(command.request_id, f"<u>{command.conversation[-1].content}<a>"))
            case Generate() if self._hang:
                self._open = command
                self._events.append(Text(command.request_id, "answer", (Span("half"),)))
            case Generate():
                self._reply(command)
            case Cancel() if self._open is not None:
                self._finish(self._open, FinishReason.CANCELLED, Totals(tokens=1, first_tokens=1))
                self._open = None

    def _reply(self, command: Generate) -> None:
        outcome = self._answer(command)
        if isinstance(outcome, ErrorInfo):
            self._events.append(Failed(command.request_id, outcome))
        elif isinstance(outcome, EngineGone):
            self._events.append(outcome)
        else:
            text = f"reply to {command.conversation[-1].content}"
            self._events.append(Text(command.request_id, "answer", (Span(text[:5]), Span(text[5:]))))
            self._events.append(RoundDone(command.request_id, Round(1, "", 0, 0, 0, 1), outcome))
            self._finish(command, FinishReason.LENGTH, outcome)

    def _finish(self, command: Generate, reason: FinishReason, sums: Totals) -> None:
        self._events.append(Finished(command.request_id, reason, sums, 99, 4096))

    def wait(self, timeout_s: float) -> list[Event]:
        self.on_wait()
        return self.take()

    def take(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def close(self) -> None:
        self.closed = True
