"""One reply, from the conversation to the last token: template, prompt, loop, text."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from slipstream.domain import errors
from slipstream.domain.chat import Conversation
from slipstream.domain.protocol import (
    Event,
    Finished,
    FinishReason,
    Generate,
    Notice,
    PromptProgress,
    RoundDone,
    Span,
    Text,
)
from slipstream.domain.rounds import Round, Totals
from slipstream.domain.speculation import Mode
from slipstream.engine.cache import CHUNK
from slipstream.engine.drafters import Drafter
from slipstream.engine.loop import Loop, Step
from slipstream.engine.sampling import Chain
from slipstream.engine.session import Session
from slipstream.engine.text.overflow import fit
from slipstream.engine.text.reasoning import ReasoningSplitter
from slipstream.engine.text.stream import TextStream
from slipstream.engine.text.template import Rendered

_LEAST_ROOM = 16  # tokens a reply must have room for


class Reply:
    def __init__(self, session: Session, command: Generate) -> None:
        self._session = session
        self._command = command
        self._began = time.perf_counter()
        self.totals = Totals()

    def run(self, emit: Callable[[Event], None]) -> None:
        """Emit the reply's events; the last is Finished. Raises ContextFull, TemplateFailed, DecodeFailed; a
        cancelled reply finishes as such."""
        session, command = self._session, self._command
        if command.fresh:
            session.reset()
        rendered, tokens = self._prompt(emit)
        sampling = command.sampling or session.default_sampling()
        rng = np.random.default_rng(sampling.seed)
        chain = Chain(sampling, session.model.vocab.n_tokens)
        session.pace.configure(command.speculation)
        session.pace.begin_reply(command.max_tokens or None)
        loop = Loop(
            session.target, self._drafters(), session.pace, chain, rng, session.model.vocab.is_eog,
            session.max_draft,
        )  # fmt: skip
        reason = FinishReason.CANCELLED
        splitter = ReasoningSplitter(
            session.tags, starts_open=rendered.reasoning_open, answer_open=rendered.answer_open
        )
        stream = TextStream((*command.stop, *rendered.stops), splitter)
        try:
            self._process(tokens, emit)
            reason = self._generate(loop, stream, tokens, emit)
        except errors.Cancelled:
            self._text(stream.finish(), emit)
        except errors.ContextFull:
            if not self.totals.tokens:
                raise
            self._text(stream.finish(), emit)
            reason = FinishReason.CONTEXT
        except errors.SlipstreamError:
            self._text(stream.finish(), emit)  # what was held back was generated all the same
            raise
        emit(Finished(command.request_id, reason, self.totals, len(session.target), session.n_ctx))

    def _drafters(self) -> list[Drafter]:
        asked = self._command.speculation
        if asked.mode is Mode.OFF:
            return []
        return [d for d in self._session.drafters if not asked.drafters or d.name in asked.drafters]

    def _prompt(self, emit: Callable[[Event], None]) -> tuple[Rendered, list[int]]:
        """Render and tokenise, dropping the oldest turns where the policy says so."""
        session, command = self._session, self._command
        made: dict[Conversation, tuple[Rendered, list[int]]] = {}

        def render(conversation: Conversation) -> tuple[Rendered, list[int]]:
            if conversation not in made:
                made[conversation] = session_prompt(session, conversation, command)
            return made[conversation]

        reserve = min(command.max_tokens or _LEAST_ROOM, max(_LEAST_ROOM, session.n_ctx // 4))
        fitted = fit(
            command.conversation, lambda c: len(render(c)[1]), session.n_ctx, reserve, command.overflow
        )
        rendered, tokens = render(fitted.conversation)
        if fitted.dropped:
            emit(
                Notice(
                    command.request_id, "dropped",
                    f"The {fitted.dropped} oldest messages no longer fit in the context and were left out.",
                    fitted.dropped,
                )
            )  # fmt: skip
        if rendered.notice:
            emit(Notice(command.request_id, "template", rendered.notice))
        return rendered, tokens

    def _process(self, tokens: list[int], emit: Callable[[Event], None]) -> None:
        """Feed the prompt in chunks; a stop takes effect between them, on the CPU within them."""
        cache, request = self._session.target, self._command.request_id
        reused = cache.reuse(tokens)
        self.totals = replace(self.totals, prompt_tokens=len(tokens), reused_tokens=reused)
        emit(PromptProgress(request, reused, reused, len(tokens)))
        began = time.perf_counter()
        while len(tokens) - len(cache) > CHUNK:
            at = len(cache)
            cache.decode(tokens[at : at + CHUNK], 0)
            emit(PromptProgress(request, reused, len(cache), len(tokens)))
        cache.decode(tokens[len(cache) :], 1)
        emit(PromptProgress(request, reused, len(tokens), len(tokens)))
        self.totals = replace(self.totals, prompt_s=time.perf_counter() - began)

    def _generate(
        self, loop: Loop, stream: TextStream, prompt: list[int], emit: Callable[[Event], None]
    ) -> FinishReason:
        command, vocab = self._command, self._session.model.vocab
        token = loop.first(prompt)
        since = time.perf_counter() - self._began
        self.totals = replace(self.totals, tokens=1, first_tokens=1, first_token_s=since, elapsed_s=since)
        if vocab.is_eog(token):
            self._text(stream.finish(), emit)
            return FinishReason.END
        self._text(stream.push(self._piece(token), Span("")), emit)
        if stream.stopped:
            loop.settle(len(prompt) + 1)
            self._text(stream.finish(), emit)
            return FinishReason.STOP_STRING
        for step in _rounds(loop, command.max_tokens):
            done = self._say(step, stream, emit)
            self.totals = replace(self.totals.add(done), elapsed_s=time.perf_counter() - self._began)
            emit(RoundDone(command.request_id, done, self.totals))
            if stream.stopped:
                loop.settle(len(loop.tokens) - (len(step.tokens) - done.yielded))
                self._text(stream.finish(), emit)
                return FinishReason.STOP_STRING
        self._text(stream.finish(), emit)
        return loop.reason

    def _say(self, step: Step, stream: TextStream, emit: Callable[[Event], None]) -> Round:
        """Turn a step's tokens into text; the round as counted, cut where a stop string ended the reply."""
        said: list[tuple[str, Span]] = []
        done = step.round
        for at, token in enumerate(step.tokens):
            if self._session.model.vocab.is_eog(token):
                break
            kept = at < done.accepted
            span = Span("", done.drafter, at + 1, done.verified, done.number) if kept else Span("")
            said += stream.push(self._piece(token), span)
            if stream.stopped and at + 1 < len(step.tokens):
                self._text(said, emit)
                count = at + 1
                return replace(done, proposed=count, verified=count, accepted=count, yielded=count)
        self._text(said, emit)
        return done

    def _piece(self, token: int) -> bytes:
        return self._session.model.vocab.piece(token, special=token in self._session.shown)

    def _text(self, pieces: list[tuple[str, Span]], emit: Callable[[Event], None]) -> None:
        """One event per run of the same channel."""
        at = 0
        while at < len(pieces):
            end = at
            while end < len(pieces) and pieces[end][0] == pieces[at][0]:
                end += 1
            emit(Text(self._command.request_id, pieces[at][0], tuple(span for _, span in pieces[at:end])))
            at = end


def session_prompt(session: Session, conversation: Conversation, command: Generate | None) -> tuple[Rendered, list[int]]:
    """The rendered prompt and its tokens, BOS never doubled. Raises TemplateFailed."""
    assert session.template is not None, "a session has a template while it is open"
    rendered = session.template.render(
        conversation,
        continue_last=command.continue_last if command else False,
        thinking=command.thinking if command else None,
    )
    tokens = session.model.vocab.tokenize(rendered.prompt, add_special=not rendered.starts_with_bos)
    return rendered, tokens


def _rounds(loop: Loop, max_tokens: int) -> Iterator[Step]:
    """max_tokens counts the first token too."""
    if max_tokens == 1:
        loop.reason = FinishReason.LENGTH
        return iter(())
    return loop.rounds(max_tokens - 1 if max_tokens else 0)
