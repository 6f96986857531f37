"""What all tests share: a home of their own, and an engine environment set before llama.cpp loads."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ["SLIPSTREAM_HOME"] = tempfile.mkdtemp(prefix="slipstream-test-home-")

from slipstream.engine import environment

environment.prepare()
# at exit, not in a fixture: processes that tests start look for it to the last moment
atexit.register(shutil.rmtree, os.environ["SLIPSTREAM_HOME"], ignore_errors=True)
