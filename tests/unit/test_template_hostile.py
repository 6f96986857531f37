"""A template is a stranger's program: whatever it does, a prompt comes out in bounded time."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.domain.chat import Message
from slipstream.engine.text.template import ChatTemplate
from slipstream.engine.text.template_child import Renderer
from slipstream.engine.text.template_process import ChildFailed, TemplateProcess

HI = (Message("user", "Hi there"),)
WIDE_S = 60.0  # far above what is expected, far below "for ever"

HOSTILE = {
    "range": "{% for i in range(10**9) %}x{% endfor %}",
    "nested": "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(9999) %}" + "{% endfor %}" * 3,
    "string": "{{ 'a' * 10**10 }}",
    "power": "{{ 9 ** (9 ** 12) }}",
    "centre": "{{ 'a' | center(10**10) }}",
    "format": "{{ '%10000000000d' % 1 }}",
    "doubling": "{% set n = namespace(s='x'*99) %}{% for i in range(99) %}{% set n.s = n.s + n.s %}{% endfor %}{{ n.s }}",
    "escape": "{{ ''.__class__.__mro__ }}",
    "subclasses": "{{ messages.__class__.__base__.__subclasses__() }}",
    "globals": "{{ raise_exception.__globals__['os'].system('true') }}",
    "format escape": "{{ '{0.__class__}'.format(messages) }}",
    "recursion": "{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}",
    "giant": "{% for i in range(99999) %}{{ 'y' * 1000 }}{% endfor %}",
    "syntax": "{% for m in messages %}",
    "undefined": "{{ nothing.of.this }}",
    "include": "{% include 'etc/passwd' %}",
    "import": "{% import '/etc/passwd' as p %}",
    "nesting": "{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}",
    "long": "x" * (2 << 20),
    "mutation": "{{ messages.append(1) }}{{ messages.clear() }}",
    "surrogate": "{{ '\ud800' }}",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_templates_end_in_the_fallback(name: str) -> None:
    started = time.monotonic()
    with ChatTemplate(HOSTILE[name], "<s>", "</s>", time_limit_s=0.5) as template:
        rendered = template.render(HI)
        assert template.fallback
        assert "Hi there" in rendered.prompt
        assert rendered.notice.startswith("The model's own chat template could not be used (")
        assert len(rendered.notice) < 400
    assert time.monotonic() - started < WIDE_S


def test_a_render_that_hangs_is_cut_and_the_next_one_works() -> None:
    source = (
        "{% for m in messages %}{{ m.content }}{% if m.content == 'hang' %}"
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}{% endif %}{% endfor %}"
    )
    with ChatTemplate(source, "", "", time_limit_s=1.0) as template:
        hung = template.render((Message("user", "hang"),))
        assert "takes too long" in hung.notice
        assert not template.fallback
        assert template.render(HI).prompt == "Hi there"
        template.render((Message("user", "hang"),))
        template.render((Message("user", "hang"),))
        assert template.fallback  # twice in a row: given up


def test_a_slow_first_answer_is_given_more_time_while_loading() -> None:
    child = (
        "import time\n"
        "from slipstream.engine.text import template_child as child\n"
        "class Slow(child.Renderer):\n"
        "    def answer(self, request):\n"
        "        if 'messages' in request['variables'] and self._source != request['source']:\n"
        "            time.sleep(1.5)\n"
        "        return super().answer(request)\n"
        "child.Renderer = Slow\n"
        "child.main()\n"
    )
    command = [sys.executable, "-c", child]
    with ChatTemplate("{{ messages[-1].content }}", "", "", command=command, time_limit_s=1.0) as template:
        assert template.notice == ""
        assert template.render(HI).prompt == "Hi there"


def test_memory_is_bounded_by_the_parent_too() -> None:
    process = TemplateProcess(memory_limit_bytes=200 << 20)
    grow = (
        "{% set big = 'x' * 300000000 %}{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    )
    try:
        with pytest.raises(ChildFailed) as caught:
            process.ask({"source": grow, "variables": {}, "output_limit": 10}, WIDE_S)
        assert caught.value.reason == "memory"
        assert process.ask({"source": "ok", "variables": {}, "output_limit": 10}, WIDE_S) == {"prompt": "ok"}
    finally:
        process.close()


def test_the_child_ends_with_close() -> None:
    before = set(psutil.Process().children())
    template = ChatTemplate("{{ messages[0].content }}", "", "")
    (child,) = set(psutil.Process().children()) - before
    template.close()
    assert not child.is_running()


@pytest.mark.parametrize("busy", [False, True])
def test_the_child_ends_when_its_parent_is_gone(busy: bool) -> None:
    script = (
        "import os, psutil, sys, threading, time\n"
        "from slipstream.engine.text.template_process import TemplateProcess\n"
        "process = TemplateProcess()\n"
        "process.ask({'source': 'x', 'variables': {}, 'output_limit': 9}, 60)\n"
        "hang = '{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}'\n"
        "ask = lambda: process.ask({'source': hang, 'variables': {}, 'output_limit': 9}, 0.5)\n"
        "if sys.argv[1] == 'True':\n"
        "    threading.Thread(target=ask, daemon=True).start()\n"
        "    time.sleep(0.2)\n"
        "print(psutil.Process().children()[0].pid, flush=True)\n"
        "os._exit(0)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    command = [sys.executable, "-c", script, str(busy)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(int(done.stdout)).wait(timeout=WIDE_S)


def test_the_child_sees_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    template = ChatTemplate("{{ messages[0].content }}", "", "")
    try:
        child = next(c for c in psutil.Process().children() if "template_child" in " ".join(c.cmdline()))
        assert "HF_TOKEN" not in child.environ()
    finally:
        template.close()


@pytest.mark.parametrize(
    "command",
    [
        ["/nonexistent/program"],
        [sys.executable, "-c", "raise SystemExit(3)"],
        [sys.executable, "-c", "print('this is no frame at all, not even nearly')"],
        [sys.executable, "-c", "import sys; sys.stdout.buffer.write(b'\\0\\0\\0\\2[]')"],
    ],
)
def test_a_child_that_does_not_come_up_means_the_fallback(command: list[str]) -> None:
    with ChatTemplate("{{ messages[0].content }}", "", "", command=command) as template:
        assert template.fallback
        assert "did not start" in template.render(HI).notice


def test_a_child_that_dies_in_between_is_started_again() -> None:
    with ChatTemplate("{{ messages[0].content }}", "", "", time_limit_s=WIDE_S) as template:
        child = next(c for c in psutil.Process().children() if "template_child" in " ".join(c.cmdline()))
        child.kill()
        child.wait()
        assert "ended" in template.render(HI).notice
        assert template.render(HI).prompt == "Hi there"


FRAGMENTS = st.sampled_from(
    ["{{", "}}", "{%", "%}", "{#", "#}", " for m in messages ", "endfor", " if ", "endif", "m.content", "messages",
     "[0]", ".", "|", "'", '"', "(", ")", "+", "-", "*", "range", "loop", "set x =", "x", " ", "\n", "raise_exception",
     "bos_token", "é", "1", "tojson", "macro a()", "endmacro", "generation", "endgeneration", "break"]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.lists(FRAGMENTS, max_size=16).map("".join), st.text(max_size=40)))
def test_any_text_as_a_template_gives_an_answer(source: str) -> None:
    """The sandbox itself, in this process: these pieces can't loop for long."""
    answer = Renderer().answer(
        {"source": source, "variables": {"messages": [{"role": "user", "content": "Hi"}]}, "output_limit": 1000}
    )
    assert isinstance(answer.get("prompt"), str) or (isinstance(answer["error"], str) and answer["kind"])


@settings(max_examples=25, deadline=None)
@given(st.lists(FRAGMENTS, max_size=10).map("".join), st.text(max_size=20))
def test_any_template_and_any_text_give_a_prompt(source: str, text: str) -> None:
    with ChatTemplate(source, "<s>", "</s>") as template:
        rendered = template.render((Message("user", text),))
        assert isinstance(rendered.prompt, str)
        assert template.fallback == bool(template.notice)
