"""Set-up from source, on machines that are not this one."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import backends
import bootstrap
import engine
import running
import starter
import system

ROOT = Path(__file__).resolve().parents[2]
RADEON, SOFTWARE = "/usr/share/vulkan/icd.d/radeon_icd.x86_64.json", "/usr/share/vulkan/icd.d/lvp_icd.x86_64.json"


@dataclass
class Machine:
    """What a fake machine has. `host()` is what the code under test sees; `ran` is what it had the machine do."""

    platform: str = "linux"
    machine: str = "x86_64"
    programs: tuple[str, ...] = ("c++", "apt-get", "sudo", "uv")
    libraries: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    outputs: dict[str, str] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    is_root: bool = False
    fails: tuple[str, ...] = ()  # the first command that holds one of these words fails, once each
    macos: tuple[int, ...] = (15, 1)
    glibc: tuple[int, ...] | None = (2, 39)
    ran: list[str] = field(default_factory=list)

    def host(self) -> system.Host:
        to_fail = list(self.fails)

        def run(command: list[str]) -> int:
            self.ran.append(" ".join(command))
            for word in to_fail:
                if word in command:
                    to_fail.remove(word)
                    return 100
            return 0

        def paths(pattern: str) -> list[str]:
            return [name for name in self.files if Path(name).match(pattern)]

        return system.Host(
            platform=self.platform,
            machine=self.machine,
            macos=self.macos,
            glibc=self.glibc,
            is_root=self.is_root,
            env=self.env,
            which=lambda name: f"/usr/bin/{name}" if name in self.programs else None,
            find_library=lambda name: f"lib{name}.so.1" if name in self.libraries else None,
            loads=lambda name: name not in self.lacks,
            paths=paths,
            output=lambda command: next(
                (text for word, text in self.outputs.items() if word in " ".join(command)), None
            ),
            run=run,
        )


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that hypothesis may write over again and again."""
    return tmp_path_factory.mktemp("scratch")


# which back end


@pytest.mark.parametrize(
    ("machine", "name", "why"),
    [
        (Machine("darwin", "arm64"), "metal", "Apple Silicon"),
        (Machine("darwin", "x86_64"), "cpu", "Apple Silicon only"),
        (Machine(), "cpu", "no CUDA; no Vulkan SDK"),
        (Machine(programs=("nvcc",)), "cpu", "nvcc is here, but no NVIDIA driver"),
        (Machine(programs=("nvidia-smi",)), "cpu", "no CUDA compiler"),
        (Machine(programs=("nvcc", "nvidia-smi")), "cuda", "driver"),
        (Machine(programs=("nvcc",), libraries=("cuda",)), "cuda", "driver"),
        (Machine("win32", "AMD64", programs=("nvcc",), libraries=("nvcuda",)), "cuda", "driver"),
        (Machine("win32", "AMD64", programs=("glslc",), env={"VULKAN_SDK": r"C:\VulkanSDK"}), "vulkan", "SDK"),
        (
            Machine(
                programs=("glslc",),
                libraries=("vulkan",),
                files=("/usr/include/vulkan/vulkan.h", "/dev/dri/renderD128", RADEON, SOFTWARE),
            ),
            "vulkan",
            "GPU",
        ),
        (
            Machine(
                programs=("glslc",),
                libraries=("vulkan",),
                files=("/usr/include/vulkan/vulkan.h", "/dev/dri/renderD128", SOFTWARE),
            ),
            "cpu",
            "no GPU with a Vulkan driver",
        ),
    ],
)
def test_best_back_end_that_works_here(machine: Machine, name: str, why: str) -> None:
    choice = backends.choose(None, machine.host())
    assert choice.name == name
    assert why in choice.why


def test_asking_overrides_and_a_wrong_name_is_told() -> None:
    host = Machine(programs=("nvcc", "nvidia-smi")).host()
    assert backends.choose("cpu", host) == backends.Choice("cpu", "as asked", "linux")
    with pytest.raises(backends.Unknown, match="rocm"):
        backends.choose("rocm", host)


def test_flags() -> None:
    assert backends.Choice("cpu", "", "linux").flags == []
    assert backends.Choice("cpu", "", "darwin").flags == ["-DGGML_METAL=OFF"]
    assert backends.Choice("cuda", "", "linux").flags == ["-DGGML_CUDA=ON"]


# what the system has


def test_windows_finds_visual_studio_off_the_path() -> None:
    studio = Machine("win32", "AMD64", programs=(), outputs={"vswhere.exe": r"C:\VS\2022"})
    assert system.compiler(studio.host()) == r"C:\VS\2022"
    with pytest.raises(system.Missing, match="winget install"):
        system.provide(Machine("win32", "AMD64", programs=()).host(), True, print)


def test_the_macs_stand_in_for_a_compiler_does_not_count() -> None:
    assert system.compiler(Machine("darwin", "arm64").host()) is None
    with pytest.raises(system.Missing, match="xcode-select --install"):
        system.provide(Machine("darwin", "arm64").host(), False, print)
    whole = Machine("darwin", "arm64", outputs={"xcode-select": "/Library/Developer"})
    assert system.compiler(whole.host()) == "/usr/bin/c++"
    system.provide(whole.host(), False, print)


def test_without_consent_the_exact_command_is_named() -> None:
    machine = Machine(programs=("apt-get", "sudo"), lacks=("libEGL.so.1", "libxcb-cursor.so.0"))
    with pytest.raises(system.Missing, match="sudo apt-get install -y libegl1 libxcb-cursor0 build-essential"):
        system.provide(machine.host(), False, print)
    assert machine.ran == []
    assert system.needs(machine.host()).startswith("sudo apt-get install -y libegl1")


@pytest.mark.parametrize(("is_root", "assume_yes"), [(True, False), (False, True)])
def test_debian_refreshes_its_lists_only_when_a_first_try_fails(is_root: bool, assume_yes: bool) -> None:
    sudo = "" if is_root else "sudo "
    machine = Machine(lacks=("libEGL.so.1",), is_root=is_root)
    system.provide(machine.host(), assume_yes, print)
    assert [line.endswith("install -y libegl1") for line in machine.ran] == [True]
    assert machine.ran[0].startswith(f"{sudo}env DEBIAN_FRONTEND=noninteractive apt-get")
    stale = Machine(lacks=("libEGL.so.1",), is_root=is_root, fails=("install",))
    system.provide(stale.host(), assume_yes, print)
    assert [line.split()[-1] for line in stale.ran] == ["libegl1", "update", "libegl1"]


def test_failing_installation_and_missing_sudo_are_told() -> None:
    broken = Machine(lacks=("libEGL.so.1",), is_root=True, fails=("install", "libegl1"))
    with pytest.raises(system.Missing, match="by hand:\n    apt-get install -y libegl1"):
        system.provide(broken.host(), False, print)
    no_sudo = Machine(programs=("apt-get", "c++"), lacks=("libEGL.so.1",))
    with pytest.raises(system.Missing, match="sudo apt-get"):
        system.provide(no_sudo.host(), True, print)
    assert no_sudo.ran == []


def test_fedora_has_its_own_names() -> None:
    machine = Machine(programs=("dnf",), lacks=("libxcb-randr.so.0", "libxcb-shape.so.0"), is_root=True)
    system.provide(machine.host(), False, print)
    assert machine.ran == ["dnf install -y libxcb gcc-c++"]


def test_elsewhere_libraries_are_named_and_stop_nothing() -> None:
    said: list[str] = []
    machine = Machine(programs=("c++",), lacks=("libEGL.so.1",))
    system.provide(machine.host(), True, said.append)
    assert "libEGL.so.1" in said[0]
    with pytest.raises(system.Missing, match="GCC or Clang"):
        system.provide(Machine(programs=()).host(), True, said.append)


def test_too_old_systems_are_told_before_anything_is_fetched() -> None:
    assert system.floor_problem(Machine().host()) == ""
    assert "2.34" in system.floor_problem(Machine(glibc=(2, 31)).host())
    assert "2.39" in system.floor_problem(Machine(machine="aarch64", glibc=(2, 36)).host())
    assert "macOS 14" in system.floor_problem(Machine("darwin", "arm64", macos=(13, 6)).host())
    assert system.floor_problem(Machine(glibc=None).host()) == ""


# the environment and its stamp


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    root = tmp_path / "a clone"
    (root / "packaging").mkdir(parents=True)
    for name in ("requirements.lock", "requirements-dev.lock", "requirements-build.lock", "pyproject.toml"):
        (root / name).write_text(f"llama-cpp-python==0.3.36 \\\n    --hash=sha256:00\n# {name}\n")
    (root / "packaging" / "nocommon.cmake").write_text("set(A OFF)\n")
    return root


@dataclass
class FakeUv:
    """Stands in for `follow`: writes what uv would, and may fail or be interrupted at a word of the command."""

    ran: list[list[str]] = field(default_factory=list)
    at: dict[str, BaseException] = field(default_factory=dict)
    built: int = 0

    def __call__(self, command: list[str], log: Path, failure: str, label: str = "") -> None:
        self.ran.append(command)
        if error := next((error for word, error in self.at.items() if word in command), None):
            raise error
        if command[1] == "venv":
            python = Path(command[-1]) / "bin" / "python"
            python.parent.mkdir(parents=True)
            python.touch()
        if "--target" in command:
            self.built += 1
            target = Path(command[command.index("--target") + 1])
            for name in ("llama_cpp/lib/libllama.so", "llama_cpp_python-0.3.36.dist-info/RECORD", "lib/libllama.so"):
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                (target / name).write_text(next(word for word in command if word.startswith("cmake.args=")))

    @property
    def steps(self) -> list[str]:
        return [command[2] if command[1] == "pip" else command[1] for command in self.ran]


@pytest.fixture
def uv(monkeypatch: pytest.MonkeyPatch) -> FakeUv:
    fake = FakeUv()
    for module in (bootstrap, engine):
        monkeypatch.setattr(module, "follow", fake)
    return fake


def open_clone(root: Path, cache: Path) -> bootstrap.Checkout:
    answers = {"--version": "uv 1", "print(1)": "1", "sysconfig": str(root / ".venv" / "packages")}
    return bootstrap.Checkout(root, Machine(outputs=answers, env={"XDG_CACHE_HOME": str(cache)}).host())


def engine_in(checkout: bootstrap.Checkout) -> str:
    return (checkout.venv / "packages" / "llama_cpp" / "lib" / "libllama.so").read_text()


@pytest.fixture
def checkout(clone: Path, tmp_path: Path) -> bootstrap.Checkout:
    return open_clone(clone, tmp_path / "cache")


CPU = backends.Choice("cpu", "", "linux")
CUDA = backends.Choice("cuda", "", "linux")


def test_set_up_once_then_nothing_to_do(checkout: bootstrap.Checkout, uv: FakeUv) -> None:
    checkout.set_up(CPU, "requirements-dev.lock")
    assert uv.steps == ["venv", "install", "sync", "install"]
    assert all("--require-hashes" in command for command in uv.ran[1:3])
    assert "LLAVA_BUILD=OFF" in engine_in(checkout)
    assert not (checkout.venv / "packages" / "lib").exists()
    checkout.set_up(CPU, "requirements-dev.lock")
    checkout.set_up(CPU, "requirements.lock")  # tests hold all that a run needs
    assert len(uv.ran) == 4


def test_a_run_does_not_cover_the_tests(checkout: bootstrap.Checkout, uv: FakeUv) -> None:
    checkout.set_up(CPU, "requirements.lock")
    uv.ran.clear()
    checkout.set_up(CPU, "requirements-dev.lock")
    assert uv.steps == ["sync", "install"]  # the engine is kept


def test_each_back_end_has_its_own_engine_and_keeps_it(checkout: bootstrap.Checkout, uv: FakeUv) -> None:
    for backend, built in ((CPU, 1), (CUDA, 2), (CPU, 2), (CUDA, 2)):
        checkout.set_up(backend, "requirements.lock")
        assert uv.built == built
        assert ("GGML_CUDA=ON" in engine_in(checkout)) == (backend is CUDA)


def test_clones_share_an_engine(checkout: bootstrap.Checkout, uv: FakeUv, tmp_path: Path) -> None:
    other = shutil.copytree(checkout.root, tmp_path / "other")
    checkout.set_up(CPU, "requirements.lock")
    second = open_clone(other, tmp_path / "cache")
    second.set_up(CPU, "requirements-dev.lock")
    assert uv.built == 1
    assert engine_in(second) == engine_in(checkout)
    assert str(checkout.root) not in engine_in(second)


@pytest.mark.parametrize("what", ["lock", "trim", "processor"])
def test_an_engine_of_another_source_or_processor_is_not_taken(
    checkout: bootstrap.Checkout, uv: FakeUv, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    checkout.set_up(CPU, "requirements.lock")
    if what == "lock":
        lock = checkout.root / "requirements.lock"
        lock.write_text(lock.read_text().replace("sha256:00", "sha256:01"))
    elif what == "trim":
        (checkout.root / "packaging" / "nocommon.cmake").write_text("set(A ON)\n")
    else:
        monkeypatch.setattr(engine, "processor", lambda host: "another")
        checkout.stamp.unlink()
    checkout.set_up(CPU, "requirements.lock")
    assert uv.built == 2


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-build.lock", "pyproject.toml"])
def test_changed_files_are_noticed(checkout: bootstrap.Checkout, uv: FakeUv, name: str) -> None:
    checkout.set_up(CPU, "requirements.lock")
    assert checkout.is_current(CPU, "requirements.lock")
    with (checkout.root / name).open("a") as file:
        file.write("# more\n")
    assert not checkout.is_current(CPU, "requirements.lock")


def test_a_moved_clone_is_noticed(checkout: bootstrap.Checkout, uv: FakeUv, tmp_path: Path) -> None:
    checkout.set_up(CPU, "requirements.lock")
    moved = checkout.root.rename(tmp_path / "moved")
    assert not bootstrap.Checkout(moved, checkout.host).is_current(CPU, "requirements.lock")


@pytest.mark.parametrize("step", ["venv", "--target", "sync", "-e"])
def test_an_interrupted_set_up_is_done_again(checkout: bootstrap.Checkout, uv: FakeUv, step: str) -> None:
    uv.at = {step: KeyboardInterrupt()}
    with pytest.raises(KeyboardInterrupt):
        checkout.set_up(CPU, "requirements.lock")
    assert not checkout.is_current(CPU, "requirements.lock")
    uv.at = {}
    checkout.set_up(CPU, "requirements.lock")
    assert checkout.is_current(CPU, "requirements.lock")


@given(
    st.one_of(
        st.binary(), st.recursive(st.none() | st.text(), lambda x: st.lists(x)).map(lambda x: json.dumps(x).encode())
    )
)
def test_any_stamp_is_survived(scratch: Path, content: bytes) -> None:
    checkout = bootstrap.Checkout(scratch, Machine().host())
    checkout.stamp.parent.mkdir(exist_ok=True)
    checkout.stamp.write_bytes(content)
    assert checkout.read_stamp() == {}


def test_uv_that_is_only_a_stand_in_is_not_used(clone: Path, uv: FakeUv) -> None:
    machine = Machine(programs=("uv", "apt-get"), is_root=True, fails=("venv",))
    found = bootstrap.Checkout(clone, machine.host()).find_uv()
    assert Path(found) == clone / ".uv" / "bin" / "uv"
    venv_package = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
    assert [line.split()[-1] for line in machine.ran] == ["clone/.uv", venv_package, "clone/.uv"]
    assert uv.ran[0][-2:] == ["--disable-pip-version-check", "uv"]


def test_programs_of_an_environment_on_each_platform() -> None:
    assert bootstrap.in_venv(Path("v"), "python", "win32") == Path("v/Scripts/python.exe")
    assert bootstrap.in_venv(Path("v"), "python", "darwin") == Path("v/bin/python")


# running and explaining


def python_that(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_a_failure_shows_the_reason_the_telling_lines_and_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = "print('a.cpp:1: error: no such thing'); print('\\n' * 30); print('× Failed to build `llama-cpp-python`'); exit(1)"
    with pytest.raises(running.Stop) as caught:
        running.follow(python_that(code), log, "Setting up failed")
    text = str(caught.value)
    assert text.startswith("Setting up failed. Compiling llama.cpp failed.")
    assert "a.cpp:1: error: no such thing" in text
    assert str(log) in text


@pytest.mark.parametrize(
    ("line", "meaning"),
    [
        ("error: failed to write: No space left on device (os error 28)", "disk is full"),
        ("  Caused by: dns error: failed to lookup address information", "network"),
        ("  Caused by: tcp connect error: Connection refused (os error 111)", "network"),
        ("  Caused by: invalid peer certificate: UnknownIssuer", "SSL_CERT_FILE"),
        ("  No CMAKE_CXX_COMPILER could be found.", "C++ compiler"),
        ("error: Hash mismatch for `numpy==2.4.6`", "not the one"),
        ("has no wheels with a matching platform tag (e.g., `manylinux_2_31_x86_64`)", "no build for this system"),
    ],
)
def test_reasons_in_words(line: str, meaning: str) -> None:
    assert meaning in running.explain("It failed", ["first", line, "last"], Path("log")).splitlines()[0]


@given(st.lists(st.text()))
def test_any_log_is_explained(lines: list[str]) -> None:
    assert running.explain("It failed", lines, Path("log")).startswith("It failed.")


def test_cmake_flags_of_the_user_do_not_leak_into_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CMAKE_ARGS", "-DGGML_CUDA=ON")
    running.follow(python_that("import os; assert 'CMAKE_ARGS' not in os.environ"), tmp_path / "log", "leaked")


@pytest.mark.skipif(os.name != "posix", reason="process groups are POSIX")
def test_an_interruption_ends_compilers_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pid_file = tmp_path / "pid"
    grandchild = f"import os, time; open({str(pid_file)!r} + '~', 'w').write(str(os.getpid())); "
    grandchild += f"os.rename({str(pid_file)!r} + '~', {str(pid_file)!r}); time.sleep(600)"

    def interrupted(child: subprocess.Popen[bytes], scratch: Path, label: str) -> None:
        wait_for(pid_file.exists)
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "_watch", interrupted)
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {grandchild!r}])"
    with pytest.raises(KeyboardInterrupt):
        running.follow(python_that(code), tmp_path / "log", "")
    pid = int(pid_file.read_text())
    wait_for(lambda: not is_running(pid))


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    """A killed process that nobody has waited for yet counts as ended."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except FileNotFoundError:
        return not Path("/proc").exists()


def test_progress_counts_object_files(tmp_path: Path) -> None:
    build = tmp_path / "tmp1" / "build"
    build.mkdir(parents=True)
    assert running.progress_line("Setting up", 3, *running.compiled(tmp_path)) == "Setting up… 3 s"
    (build / "build.ninja").write_text(
        "build a/x.o: CXX x.cpp\nbuild b/y.cpp.obj: CXX y.cpp\nbuild lib.so: LINK a/x.o\n"
    )
    (build / "x.o").touch()
    assert running.compiled(tmp_path) == (1, 2)
    assert "1 of 2 files compiled, 90 s" in running.progress_line("Setting up", 90, *running.compiled(tmp_path))


# the starter model


def test_only_the_very_file_is_placed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, folder = tmp_path / "model.gguf", tmp_path / "models"
    source.write_bytes(b"GGUF")
    with pytest.raises(ValueError, match="checksum"):
        starter.place(source, folder)
    assert not folder.exists()
    monkeypatch.setattr(starter, "SHA256", starter.sha256(source))
    starter.place(source, folder)
    assert [path.name for path in folder.iterdir()] == [starter.NAME]


def test_a_models_folder_in_use_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLIPSTREAM_HOME", str(tmp_path))
    (tmp_path / "models" / "mine").mkdir(parents=True)
    (tmp_path / "models" / "mine" / "some.gguf").touch()

    def no_uv() -> str:
        raise AssertionError("nothing was to be fetched")

    assert starter.fetch(Path(sys.executable), no_uv, print, only_if_empty=True)


def test_a_starter_that_cannot_be_had_is_a_notice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLIPSTREAM_HOME", str(tmp_path))
    said: list[str] = []
    assert not starter.fetch(Path(sys.executable), lambda: sys.executable, said.append, only_if_empty=True)
    assert "Slipstream works without it" in said[-1]
    assert not list(tmp_path.rglob("*.gguf*"))


# the command line


def test_options_stand_before_or_right_after_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLIPSTREAM_BACKEND", raising=False)
    before = bootstrap.parse(["--yes", "--backend", "cpu", "run", "chat", "--yes"])
    after = bootstrap.parse(["run", "--backend=cpu", "--yes", "chat", "--yes"])
    for found in (before, after):
        assert (found.yes, found.backend, found.rest) == (True, "cpu", ["chat", "--yes"])
    assert bootstrap.parse(["test", "-k", "x", "--backend"]).rest == ["-k", "x", "--backend"]
    monkeypatch.setenv("SLIPSTREAM_BACKEND", "vulkan")
    assert bootstrap.parse(["run"]).backend == "vulkan"
    assert bootstrap.parse(["--backend", "cpu", "run"]).backend == "cpu"


def test_doctor(checkout: bootstrap.Checkout, uv: FakeUv, capsys: pytest.CaptureFixture[str]) -> None:
    assert bootstrap.doctor(checkout, None) == 0
    assert "sets up first" in capsys.readouterr().out
    checkout.set_up(backends.choose(None, checkout.host), "requirements.lock")
    assert bootstrap.doctor(checkout, None) == 0
    assert "starts at once" in capsys.readouterr().out
    ill = bootstrap.Checkout(checkout.root, Machine(programs=("apt-get",), lacks=("libEGL.so.1",)).host())
    assert bootstrap.doctor(ill, None) == 1
    assert "sudo apt-get install -y libegl1 build-essential" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["bootstrap", "system", "backends", "starter", "running", "engine"])
def test_set_up_needs_only_the_standard_library_and_an_old_python_can_read_it(name: str) -> None:
    tree = ast.parse((ROOT / "packaging" / f"{name}.py").read_text(encoding="utf-8"), feature_version=(3, 8))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    own = {"backends", "engine", "running", "starter", "system"}
    assert {module.split(".")[0] for module in imported} - own <= sys.stdlib_module_names


# the lock files


def pins(name: str) -> set[str]:
    text = (ROOT / name).read_text(encoding="utf-8")
    return set(re.findall(r"^([A-Za-z0-9_.-]+==\S+(?: ; [^\\\n]+)?)", text, re.MULTILINE))


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock", "requirements-build.lock"])
def test_locks_are_hashed_and_name_no_index(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert "://" not in text
    for pin in pins(name):
        package = pin.split("==")[0]
        assert re.search(rf"^{re.escape(package)}==.* \\\n    --hash=sha256:", text, re.MULTILINE), package


def test_run_and_tests_lock_the_same_versions() -> None:
    assert pins("requirements.lock") < pins("requirements-dev.lock")
    locks = [(ROOT / name).read_text(encoding="utf-8") for name in ("requirements.lock", "requirements-dev.lock")]
    assert len({engine.split(lock)[0] for lock in locks}) == 1
    assert not [lock for lock in locks if "llama-cpp-python==" in engine.split(lock)[1]]


@given(st.text(), st.text(st.characters(exclude_characters=" \t")))
def test_a_lock_is_split_without_loss(before: str, after: str) -> None:
    locked = "llama-cpp-python==1.0 \\\n    --hash=sha256:00 \\\n    --hash=sha256:01\n"
    assert engine.split(f"{before}\n{locked}{after}") == (locked, f"{before}\n{after}")
    with pytest.raises(running.Stop, match="lock`"):
        engine.split(before)
