"""The package as it is installed: what it has, what it needs, what it says of itself."""

from __future__ import annotations

import importlib.metadata
import inspect
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import ringfeed
from ringfeed import _core

PACKAGE = Path(ringfeed.__file__).parent
PROJECT = Path(__file__).resolve().parents[2]


def installed() -> bool:
    """Whether the package came by pip, not by PYTHONPATH from a build tree."""
    try:
        importlib.metadata.version("ringfeed")
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


needs_installed = pytest.mark.skipif(
    not installed(), reason="the package is not installed, it is taken from a build tree"
)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=120, check=False
    )


def public_names() -> list[str]:
    return sorted(
        name
        for name, value in vars(ringfeed).items()
        if not name.startswith("_") and not isinstance(value, ModuleType) and name != "annotations"
    )


def documented(thing: object) -> bool:
    """A docstring of its own: not what NamedTuple writes, and not that of a base class."""
    text = vars(thing).get("__doc__") if isinstance(thing, type) else inspect.getdoc(thing)
    name = getattr(thing, "__name__", "")
    return bool(text) and not str(text).startswith(f"{name}(")


@pytest.mark.parametrize("absent", ["numpy", "torch", "jax", "mypy"])
def test_it_is_imported_where_other_packages_cannot_be(absent: str) -> None:
    program = f"import sys; sys.modules[{absent!r}] = None; import ringfeed, ringfeed.data_feeder"
    done = run("-c", program)
    assert done.returncode == 0, done.stderr


def test_importing_it_imports_no_array_package() -> None:
    done = run(
        "-c",
        "import sys, ringfeed, ringfeed.reader, ringfeed.data_feeder\n"
        "print(*sorted({'numpy', 'torch', 'jax'} & set(sys.modules)))",
    )
    assert (done.stdout.strip(), done.returncode) == ("", 0), done.stderr


def test_importing_it_changes_no_malloc() -> None:
    done = run("-c", "import ringfeed; print(open('/proc/self/maps').read())")
    assert "_core" in done.stdout, done.stderr
    assert "mimalloc" not in done.stdout


def test_its_version_is_the_librarys() -> None:
    listed = (PROJECT / "CMakeLists.txt").read_text(encoding="utf-8")
    found = re.search(r"project\(ringfeed VERSION ([\d.]+)", listed)
    assert found is not None
    assert ringfeed.__version__ == found[1]


@needs_installed
def test_pip_and_the_package_agree_on_the_version() -> None:
    assert importlib.metadata.version("ringfeed") == ringfeed.__version__


def test_the_command_is_part_of_it() -> None:
    done = run("-m", "ringfeed", "--help")
    assert done.returncode == 0
    assert "ringfeed feed" in done.stdout


def test_the_commands_exit_status_is_the_processs() -> None:
    assert run("-m", "ringfeed", "no-such-command").returncode == 2


def test_the_command_ends_quietly_if_nobody_reads_on(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a line\n" * 1_000_000)
    command = [sys.executable, "-m", "ringfeed", "cat", str(tmp_path / "a.txt")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stderr is not None
        assert child.stdout.readline() == b"a line\n"
        child.stdout.close()
        assert child.stderr.read() == b""
    assert child.returncode == -signal.SIGPIPE


@needs_installed
def test_the_command_is_on_the_path_of_the_environment() -> None:
    done = subprocess.run(
        [str(Path(sys.executable).with_name("ringfeed")), "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ringfeed.__version__ in done.stdout


@needs_installed
def test_it_has_stubs_and_no_sources_of_the_module() -> None:
    files = [path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*") if path.is_file()]
    assert {"py.typed", "_core.pyi", "bin/ringfeed"} <= set(files)
    assert not [name for name in files if Path(name).suffix in {".cc", ".h", ".a"}]


@needs_installed
def test_the_module_is_stripped() -> None:
    (module,) = PACKAGE.glob("_core*.so")
    assert b".debug_info" not in module.read_bytes()


def test_every_public_name_is_exported() -> None:
    assert sorted(ringfeed.__all__) == ringfeed.__all__
    assert set(public_names()) == set(ringfeed.__all__) - {
        "__version__",
        "devices",
        "errors",
        "jpeg",
        "reader",
    }
    for name in ringfeed.__all__:
        getattr(ringfeed, name)


def members(kind: type) -> dict[str, object]:
    """The public methods and properties of a class and of its bases in the package."""
    return {
        name: value
        for base in reversed(kind.__mro__)
        if base.__module__.startswith("ringfeed")
        for name, value in vars(base).items()
        if not name.startswith("_") and (callable(value) or hasattr(value, "__get__"))
    }


@pytest.mark.parametrize("name", public_names())
def test_every_public_function_and_class_is_documented(name: str) -> None:
    thing = getattr(ringfeed, name)
    if not callable(thing):
        return
    assert documented(thing), f"ringfeed.{name} has no docstring"
    if isinstance(thing, type) and not issubclass(thing, tuple):
        bare = [
            member for member in members(thing) if not inspect.getdoc(getattr(thing, member, None))
        ]
        assert not bare, f"without a docstring: {', '.join(f'{name}.{each}' for each in bare)}"


def test_the_module_names_the_arguments_of_all_its_functions() -> None:
    """As a call by name, an error and the stubs show them; nanobind's own name is arg, arg0, …"""
    things = [*vars(_core).values()]
    for kind in [thing for thing in things if isinstance(thing, type)]:
        things += members(kind).values()
    overloads = [each for thing in things for each in getattr(thing, "__nb_signature__", ())]
    signatures = [str(overload[0]) for overload in overloads]
    assert len(signatures) > 50
    nameless = [text for text in signatures if re.search(r"\barg\d*:", text)]
    assert not nameless, "\n".join(nameless)
