"""What is measured: the prompts, and the ways of decoding they are tried with."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from slipstream.domain.chat import Conversation, Message, Role
from slipstream.domain.errors import SlipstreamError
from slipstream.domain.speculation import Mode, Speculation

TASKS = ("code", "facts", "creative", "edit", "summary")
DEFAULT_MODES = "plain,auto,ngram,2,3,5,8"
LONGEST_DRAFT = 64
_LIMIT_BYTES = 16 * 2**20
_ROLES: tuple[Role, ...] = ("system", "user", "assistant")
_SINGLE = {
    "plain": Speculation(Mode.OFF),
    "auto": Speculation(Mode.AUTO),
    "auto-model": Speculation(Mode.AUTO, drafters=("model",)),
    "auto-ngram": Speculation(Mode.AUTO, drafters=("ngram",)),
}


class BadPrompts(SlipstreamError):
    """The file of prompts cannot be read or does not hold what was asked for."""


@dataclass(frozen=True)
class BenchPrompt:
    """One prompt. `id` is unique in its file; `task` is what its figures are grouped by."""

    id: str
    task: str
    conversation: Conversation


@dataclass(frozen=True)
class BenchMode:
    """A way of decoding. `label` names it in reports: "plain", "auto", "ngram", "fixed-3", …; one that is listed twice
    is labelled "plain", "plain-2". `length` is the pinned draft length in tokens of a fixed-length mode, else None."""

    label: str
    speculation: Speculation
    length: int | None = None

    @property
    def drafter(self) -> str:
        """The only drafter this mode allows; empty where it allows none or all."""
        return self.speculation.drafters[0] if len(self.speculation.drafters) == 1 else ""


def default_prompts_path() -> Path:
    """The bundled prompts, in a frozen program, an installed wheel or a source checkout. Raises BadPrompts."""
    package = Path(__file__).resolve().parents[1]
    frozen = getattr(sys, "_MEIPASS", None)
    homes = [Path(frozen) / "slipstream", Path(frozen)] if frozen else []
    for home in (*homes, package, package.parents[1]):
        path = home / "resources" / "prompts" / "bench.json"
        if path.is_file():
            return path
    raise BadPrompts(
        "The prompts that come with Slipstream are missing.", "Install it again, or name a file of prompts."
    )


def read_prompts(path: Path) -> tuple[BenchPrompt, ...]:
    """The prompts of a JSON file (see `parse_prompts`). Raises BadPrompts."""
    try:
        with path.open("rb") as file:
            data = file.read(_LIMIT_BYTES + 1)
        if len(data) > _LIMIT_BYTES:
            raise BadPrompts(f"{path.name} is too large for a file of prompts.", "At most 16 MiB are read.")
        return parse_prompts(data.decode("utf-8"))
    except OSError as error:
        raise BadPrompts(f"The prompts in {path} cannot be read.", "Check the name of the file.", str(error)) from error
    except UnicodeDecodeError as error:
        raise BadPrompts(f"{path.name} is not UTF-8 text.", "Save it as UTF-8.", str(error)) from error


def parse_prompts(text: str) -> tuple[BenchPrompt, ...]:
    """Prompts from a JSON list of {"id", "task", "messages": [{"role", "content"}]}. Raises BadPrompts, which says
    which entry is wrong."""
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadPrompts("The file of prompts is not valid JSON.", "Mend it, or leave it out.", str(error)) from error
    if not isinstance(entries, list) or not entries:
        raise BadPrompts("The file of prompts holds no list of prompts.", _SHAPE)
    prompts = tuple(_prompt(number, entry) for number, entry in enumerate(entries, 1))
    twice = [name for name, count in Counter(prompt.id for prompt in prompts).items() if count > 1]
    if twice:
        raise BadPrompts(f"The id {twice[0]} is used more than once among the prompts.", "Give each its own.")
    return prompts


_SHAPE = 'Each entry needs "id", "task" and "messages", a list of {"role", "content"} that ends with the user\'s.'


def _prompt(number: int, entry: object) -> BenchPrompt:
    if not isinstance(entry, dict):
        raise BadPrompts(f"Prompt {number} is no object.", _SHAPE)
    name, task, messages = (entry.get(key) for key in ("id", "task", "messages"))
    if not (isinstance(name, str) and name and isinstance(task, str) and task and isinstance(messages, list)):
        raise BadPrompts(f"Prompt {number} is incomplete.", _SHAPE)
    turns = []
    for message in messages:
        role, content = (message.get(key) for key in ("role", "content")) if isinstance(message, dict) else (None, None)
        known = next((one for one in _ROLES if one == role), None)
        if known is None or not isinstance(content, str):
            raise BadPrompts(f"A message of prompt {number} has no role or no content.", _SHAPE)
        turns.append(Message(known, content))
    if not turns or turns[-1].role != "user":
        raise BadPrompts(f"Prompt {number} does not end with the user's message.", _SHAPE)
    return BenchPrompt(name, task, tuple(turns))


def choose(prompts: Sequence[BenchPrompt], tasks: Iterable[str] = (), limit: int = 0) -> tuple[BenchPrompt, ...]:
    """The first `limit` prompts (0: all) of each task in `tasks` (none: every task), in the order of `tasks`.

    Raises BadPrompts where a task has no prompt."""
    known = tuple(dict.fromkeys(prompt.task for prompt in prompts))
    chosen: list[BenchPrompt] = []
    for task in dict.fromkeys(tasks) or known:
        found = [prompt for prompt in prompts if prompt.task == task]
        if not found:
            raise BadPrompts(f"There is no prompt for the task {task}.", f"Tasks with prompts: {', '.join(known)}.")
        chosen += found[:limit] if limit else found
    return tuple(chosen)


def parse_modes(text: str, max_draft: int) -> tuple[BenchMode, ...]:
    """Modes from a list with commas: plain, auto, ngram, auto-model, auto-ngram, or a draft length ("3", "fixed-3").

    `ngram` drafts up to `max_draft` tokens wherever it finds a match. Raises ValueError with a sentence."""
    modes: list[BenchMode] = []
    seen: Counter[str] = Counter()
    for word in (part.strip() for part in text.split(",")):
        if not word:
            continue
        mode = _mode(word, max_draft)
        seen[mode.label] += 1
        count = seen[mode.label]
        label = mode.label if count == 1 else f"{mode.label}-{count}"
        modes.append(BenchMode(label, mode.speculation, mode.length))
    if not modes:
        raise ValueError("no mode is named")
    return tuple(modes)


def _mode(word: str, max_draft: int) -> BenchMode:
    if word in _SINGLE:
        return BenchMode(word, _SINGLE[word])
    if word == "ngram":
        return BenchMode(word, Speculation(Mode.ON, length=max_draft, drafters=("ngram",)))
    fixed = re.fullmatch(r"(?:fixed-)?([0-9]{1,4})", word, re.ASCII)
    if fixed is None:
        raise ValueError(f"{word} is no mode: use plain, auto, ngram, auto-model, auto-ngram or a draft length")
    length = int(fixed[1])
    if not 1 <= length <= LONGEST_DRAFT:
        raise ValueError(f"a draft length lies between 1 and {LONGEST_DRAFT}, not at {length}")
    return BenchMode(f"fixed-{length}", Speculation(Mode.ON, length=length, drafters=("model",)), length)
