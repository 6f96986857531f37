"""A loaded pair: everything a reply needs, built once and closed together."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from slipstream.domain import errors
from slipstream.domain.protocol import EngineSettings, Load, Loaded, LoadProgress
from slipstream.domain.sampling import Sampling
from slipstream.domain.speculation import Speculation
from slipstream.engine.cache import CHUNK, Cache
from slipstream.engine.drafters import MAKERS, Drafter, Parts
from slipstream.engine.environment import thread_count
from slipstream.engine.host import PaceStore, Pair
from slipstream.engine.pace import PaceController, PaceRecord
from slipstream.engine.text.template import ChatTemplate
from slipstream.llama import memory
from slipstream.llama.backend import Backend
from slipstream.llama.context import FLASH, KV_TYPES, Context, ContextOptions
from slipstream.llama.model import Model
from slipstream.llama.vocab import mismatch

_log = logging.getLogger(__name__)

DEFAULT_CTX = 8192


class ForgetfulStore:
    """Keeps nothing."""

    def load(self, pair: Pair) -> dict[str, Any] | None:
        return None

    def save(self, pair: Pair, record: dict[str, Any]) -> None:
        return None


class Session:
    """Made by `load`. `abort` is the event that stops decoding on the CPU at once, elsewhere between batches."""

    def __init__(self, settings: EngineSettings, store: PaceStore) -> None:
        self._settings = settings
        self.max_draft = settings.max_draft
        self._store = store
        self._models: list[Model] = []
        self._caches: list[Cache] = []
        self._pair: Pair | None = None
        self.drafters: tuple[Drafter, ...] = ()
        self.notices: list[str] = []
        self.template: ChatTemplate | None = None

    def open(
        self, backend: Backend, command: Load, abort: threading.Event, progress: Callable[[LoadProgress], None]
    ) -> Loaded:
        """Load everything. Raises the load errors of domain.errors; `close` must follow in any case."""
        began, settings = time.perf_counter(), self._settings
        if settings.flash_attention not in FLASH:
            raise errors.LoadFailed(
                f"“{settings.flash_attention}” is no flash attention setting.", f"Use one of {', '.join(FLASH)}."
            )
        if settings.kv_type not in KV_TYPES:
            raise errors.LoadFailed(f"“{settings.kv_type}” is no KV cache type.", f"Use one of {', '.join(KV_TYPES)}.")
        share = 0.6 if command.draft else 0.9

        def report(stage: str, start: float, width: float) -> Callable[[float], None]:
            last = [-1.0]

            def tell(fraction: float) -> None:
                if fraction - last[0] >= 0.02 or fraction >= 1:
                    last[0] = fraction
                    progress(LoadProgress(command.load_id, stage, start + width * fraction))

            return tell

        target = Model(
            backend, command.target, gpu_layers=settings.gpu_layers_target,
            progress=report("target", 0.0, share), cancelled=abort,
        )  # fmt: skip
        self._models.append(target)
        if not target.has_decoder():
            raise errors.UnsupportedArchitecture("This model does not write text.", "Choose a chat model.")
        draft = None
        if command.draft:
            draft = Model(
                backend, command.draft, gpu_layers=settings.gpu_layers_draft,
                progress=report("draft", share, 0.9 - share), cancelled=abort,
            )  # fmt: skip
            self._models.append(draft)
            if why := mismatch(target.vocab, draft.vocab):
                raise errors.PairMismatch(
                    f"This draft can't guess for this target: {why}.", "Choose a draft of the same model family."
                )
        threads = thread_count(settings.threads)
        n_ctx = settings.n_ctx or min(target.n_ctx_train or DEFAULT_CTX, DEFAULT_CTX)
        tell = report("contexts", 0.9, 0.05)
        target_cache = self._cache(backend, target, n_ctx, 1 + settings.max_draft, threads, abort, stepwise=False)
        draft_cache = self._cache(backend, draft, n_ctx, 1, threads, abort, stepwise=True) if draft else None
        tell(1.0)
        self.model, self.target, self.n_ctx, self.threads = target, target_cache, target_cache.n_ctx, threads
        devices = backend.devices()
        main = next((d.description for d in devices if d.kind in ("gpu", "igpu")), devices[0].description)
        where = f"{main} {settings.gpu_layers_target} {settings.gpu_layers_draft} {settings.flash_attention}"
        self._pair = Pair(command.target, command.draft or "", where, threads, settings.kv_type)
        self._learned = self._store.load(self._pair) or {}
        parts = Parts(target.vocab.n_tokens, target.vocab.is_eog, draft_cache, self._learned)
        self.drafters = tuple(drafter for make in MAKERS if (drafter := make(parts)) is not None)
        self.pace = PaceController(self._record(), Speculation(), settings.max_draft)
        self._make_template()
        self._profile(report("profile", 0.95, 0.05))
        self.save()
        if abort.is_set():
            raise errors.Cancelled("Loading was stopped.")
        sizes = memory.buffers(target.load_log, "target") | {"target weights": target.info().size_bytes}
        self._add(sizes, memory.buffers(target_cache.context.log, "target"))
        if draft is not None and draft_cache is not None:
            self._add(sizes, {"draft weights": draft.info().size_bytes})
            self._add(sizes, memory.buffers(draft_cache.context.log, "draft"))
        return Loaded(
            command.load_id, target.info(), draft.info() if draft else None, self.n_ctx, threads,
            tuple(drafter.name for drafter in self.drafters), devices, sizes, self.default_sampling(),
            time.perf_counter() - began, bool(self.template and self.template.has_thinking), tuple(self.notices),
        )  # fmt: skip

    @staticmethod
    def _add(sizes: dict[str, int], more: dict[str, int]) -> None:
        for key, value in more.items():
            sizes[key] = sizes.get(key, 0) + value

    def _cache(
        self, backend: Backend, model: Model, n_ctx: int, outputs: int, threads: int, abort: threading.Event, *,
        stepwise: bool,
    ) -> Cache:  # fmt: skip
        options = ContextOptions(
            n_ctx=n_ctx, n_batch=CHUNK, n_outputs=outputs, n_rollback=0 if stepwise else outputs - 1,
            threads=threads, kv_type=self._settings.kv_type, flash_attention=self._settings.flash_attention,
        )  # fmt: skip
        cache = Cache(Context(backend, model, options, abort), stepwise=stepwise)
        self._caches.append(cache)
        return cache

    def _record(self) -> PaceRecord | None:
        try:
            return PaceRecord.from_json(self._learned["pace"])
        except (KeyError, ValueError):
            return None

    def _make_template(self) -> None:
        vocab, source = self.model.vocab, self.model.chat_template()
        chatml = len(vocab.tokenize("<|im_start|>", add_special=False)) == 1
        self.template = ChatTemplate(
            source, vocab.special_text(vocab.bos), vocab.special_text(vocab.eos),
            fallback_style="chatml" if chatml else "plain",
        )  # fmt: skip
        self.tags = self.template.tags
        # control tokens are left out of the text, but for those the reasoning splitter has to see
        markers = self.tags.markers if self.tags else ()
        ids = (vocab.tokenize(marker, add_special=False) for marker in markers)
        self.shown = frozenset(found[0] for found in ids if len(found) == 1)
        if self.template.notice:
            self.notices.append(self.template.notice)

    def default_sampling(self) -> Sampling:
        """The model's own defaults where its metadata has them (general.sampling.*), else ours."""
        base = Sampling()
        return Sampling(
            temperature=self._number("temp", base.temperature),
            top_k=int(self._number("top_k", base.top_k)),
            top_p=self._number("top_p", base.top_p),
            min_p=self._number("min_p", base.min_p),
            repeat_penalty=self._number("penalty_repeat", base.repeat_penalty),
            penalty_last_n=int(self._number("penalty_last_n", base.penalty_last_n)),
        )

    def _number(self, key: str, default: float) -> float:
        try:
            value = float(self.model.meta(f"general.sampling.{key}") or default)
        except ValueError:
            return default
        least = -1 if key == "penalty_last_n" else 0  # −1: the whole context
        return value if np.isfinite(value) and value >= least else default

    def _profile(self, tell: Callable[[float], None]) -> None:
        """Measure what a few row counts and draft steps cost, so that a first reply can already be paced."""
        rows = self.pace.profile_rows()
        sample = [5 + i % max(1, self.model.vocab.n_tokens - 6) for i in range(72)]
        if not rows:
            return
        self.target.decode(sample[:2], 1)  # the first decode reads the weights from disk
        for number, count in enumerate(rows):
            count = min(count, 1 + self._settings.max_draft)
            began = time.perf_counter()
            self.target.decode(sample[:count], count)
            self.pace.observe_verify(count, len(self.target) - count, time.perf_counter() - began)
            tell((number + 1) / (len(rows) + 1))
            if len(self.target) > self.n_ctx - 20:
                self.target.clear()
        self.target.clear()
        for drafter in self.drafters:
            if (cost := drafter.profile(sample)) is not None:
                self.pace.observe_draft_steps(drafter.name, cost.steps, cost.steps_s)
                self.pace.observe_catch_up(drafter.name, cost.fed, cost.fed_s)

    def save(self) -> None:
        """Keep what was learned of this pair."""
        if self._pair is None:
            return
        try:
            record: dict[str, Any] = {"pace": self.pace.record().to_json()}
            for drafter in self.drafters:
                record.update(drafter.state())
            self._store.save(self._pair, record)
        except Exception:  # a reply that is done must not fail for its record
            _log.exception("pace record not kept")

    def reset(self) -> None:
        self.target.clear()
        for drafter in self.drafters:
            drafter.reset()

    def close(self) -> None:
        """Free contexts, then models. May be called at any point of a failed load."""
        if self.template is not None:
            self.template.close()
        for cache in self._caches:
            cache.close()
        for model in self._models:
            model.close()
        self._caches, self._models, self.drafters, self.template, self._pair = [], [], (), None, None
