"""Commands and events: all that passes between a window (or a command line) and an engine.

Both directions are frozen dataclasses, pickled over a pipe when the engine is a child process and handed
over as they are when it is a thread. Nothing else crosses.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from slipstream.domain.chat import Conversation
from slipstream.domain.errors import ErrorInfo
from slipstream.domain.rounds import Round, Totals
from slipstream.domain.sampling import Sampling
from slipstream.domain.speculation import Speculation


class Overflow(StrEnum):
    """What to do when a conversation does not fit in the context."""

    STOP = "stop"
    DROP_OLDEST = "drop_oldest"


class FinishReason(StrEnum):
    END = "end"  # the model ended its turn
    STOP_STRING = "stop_string"
    LENGTH = "length"  # max_tokens reached
    CONTEXT = "context"  # the context is full
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class EngineSettings:
    """What a load needs. Counts of layers: −1 offloads all. `threads` 0 chooses (physical cores, one left to
    the desktop from four on). `n_ctx` 0 takes the model's own, at most 8192. `kv_type`: "f16", "q8_0", "q4_0".
    `max_draft` bounds the tokens verified in one round; output rows are reserved for it."""

    n_ctx: int = 0
    threads: int = 0
    gpu_layers_target: int = -1
    gpu_layers_draft: int = -1
    kv_type: str = "f16"
    flash_attention: str = "auto"  # "auto" | "on" | "off"
    max_draft: int = 16


# ---------------------------------------------------------------- commands


@dataclass(frozen=True)
class Load:
    """Load a target and, where given, its draft. Replaces what is loaded. Paths are absolute."""

    load_id: int
    target: str
    draft: str | None = None
    settings: EngineSettings = field(default_factory=EngineSettings)


@dataclass(frozen=True)
class Generate:
    """Answer the last user message of `conversation`. With `continue_last` the last message is the
    assistant's own unfinished one and is carried on. `sampling` None takes the model's defaults.
    `max_tokens` 0: until the model ends or the context is full. `thinking` None: the template's own default.
    `fresh` starts from empty caches, reusing no prefix (for measuring)."""

    request_id: int
    conversation: Conversation
    sampling: Sampling | None = None
    speculation: Speculation = field(default_factory=Speculation)
    max_tokens: int = 0
    stop: tuple[str, ...] = ()
    overflow: Overflow = Overflow.STOP
    continue_last: bool = False
    thinking: bool | None = None
    fresh: bool = False


@dataclass(frozen=True)
class RenderPrompt:
    """Render the chat template only: answered by `RenderedPrompt`."""

    request_id: int
    conversation: Conversation


@dataclass(frozen=True)
class Cancel:
    """Stop whatever is running: a load or a reply. What was generated stays."""


@dataclass(frozen=True)
class Unload:
    """Free both models."""


@dataclass(frozen=True)
class Shutdown:
    """End the worker (and the process that hosts it)."""


Command = Load | Generate | RenderPrompt | Cancel | Unload | Shutdown


# ---------------------------------------------------------------- events


@dataclass(frozen=True)
class ModelInfo:
    """What is known of a loaded model. Sizes in bytes; `n_layer` without the output layer."""

    path: str
    name: str
    architecture: str
    description: str
    n_params: int
    size_bytes: int
    n_layer: int
    n_vocab: int
    n_ctx_train: int


@dataclass(frozen=True)
class DeviceInfo:
    """A ggml device: name, kind ("cpu", "gpu", "igpu", "accel") and memory in bytes."""

    name: str
    description: str
    kind: str
    free_bytes: int
    total_bytes: int


@dataclass(frozen=True)
class LoadProgress:
    """`stage`: "target", "draft", "contexts", "profile". `fraction` of the whole load, 0..1."""

    load_id: int
    stage: str
    fraction: float


@dataclass(frozen=True)
class Loaded:
    """`drafters` are those this pair offers. `memory_bytes` maps a part ("target weights", "target KV", "draft weights",
    "draft KV", "compute", "output") to bytes by llama.cpp's own report. `sampling` holds the model's defaults."""

    load_id: int
    target: ModelInfo
    draft: ModelInfo | None
    n_ctx: int
    threads: int
    drafters: tuple[str, ...]
    devices: tuple[DeviceInfo, ...]
    memory_bytes: dict[str, int]
    sampling: Sampling
    load_s: float
    has_thinking: bool
    notices: tuple[str, ...] = ()


@dataclass(frozen=True)
class LoadRefused:
    load_id: int
    error: ErrorInfo


@dataclass(frozen=True)
class Unloaded:
    pass


@dataclass(frozen=True)
class PromptProgress:
    """Prompt tokens: `reused` from the last turn's cache, `done` of `total` processed (both count the reused)."""

    request_id: int
    reused: int
    done: int
    total: int


@dataclass(frozen=True)
class Span:
    """A run of text from one source. `drafter` is empty for the target's own token; otherwise the token was
    guess number `guess` of `proposed` in round `round_no` and was kept."""

    text: str
    drafter: str = ""
    guess: int = 0
    proposed: int = 0
    round_no: int = 0


@dataclass(frozen=True)
class Text:
    """New text of the reply. `channel`: "answer" or "reasoning". May be empty of spans."""

    request_id: int
    channel: str
    spans: tuple[Span, ...]

    @property
    def text(self) -> str:
        return "".join(span.text for span in self.spans)


@dataclass(frozen=True)
class RoundDone:
    """One round of the loop, with the totals of the reply so far."""

    request_id: int
    round: Round
    totals: Totals


@dataclass(frozen=True)
class Notice:
    """Something the user should know that stops nothing (dropped turns, template fallback)."""

    request_id: int
    kind: str
    message: str
    count: int = 0


@dataclass(frozen=True)
class RenderedPrompt:
    """The prompt as the model would read it, special tokens written out."""

    request_id: int
    prompt: str


@dataclass(frozen=True)
class Finished:
    request_id: int
    reason: FinishReason
    totals: Totals
    n_past: int
    n_ctx: int


@dataclass(frozen=True)
class Failed:
    """The reply could not go on. What was generated before stays valid."""

    request_id: int
    error: ErrorInfo


@dataclass(frozen=True)
class EngineGone:
    """The engine process ended unasked (made by the host, never by the worker)."""

    error: ErrorInfo


Event = (
    LoadProgress
    | Loaded
    | LoadRefused
    | Unloaded
    | PromptProgress
    | Text
    | RoundDone
    | Notice
    | RenderedPrompt
    | Finished
    | Failed
    | EngineGone
)
