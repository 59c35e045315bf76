# SPDX-License-Identifier: Apache-2.0
"""The reports as a separate package: its contents, and its optional dependencies."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import builders
import pytest

_TOOLS = builders.ROOT / "tools"
_HEAVY = {"torch", "transformers", "tokenizers", "safetensors", "bitsandbytes"}


def _run(*command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built without a network."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    flags = ["--quiet", "--no-build-isolation", "--no-deps", "--disable-pip-version-check", "--no-index"]
    done = _run(sys.executable, "-m", "pip", "wheel", *flags, "-w", folder, builders.ROOT)
    assert done.returncode == 0, done.stderr
    (found,) = folder.glob("roofreport-*.whl")
    return found


def test_every_file_of_it_is_in_the_wheel(wheel: Path) -> None:
    folder = _TOOLS / "roofreport"
    ours = {path.relative_to(_TOOLS).as_posix() for path in folder.rglob("*") if path.is_file()}
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert packed == {path for path in ours if "__pycache__" not in path}


def test_the_installed_command_works_without_the_project(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "installed"
    flags = ["--quiet", "--no-deps", "--no-index", "--disable-pip-version-check", "--target", target]
    assert _run(sys.executable, "-m", "pip", "install", *flags, wheel).returncode == 0
    result = builders.write_json(tmp_path / "a.json")
    command = ["env", f"PYTHONPATH={target}", sys.executable, target / "bin/roofreport"]
    done = _run(*command, "table", result)
    assert done.returncode == 0, done.stderr
    assert builders.MATMUL in done.stdout
    assert _run(*command, "table", tmp_path / "missing").stderr.startswith("roofreport: ")
    said = [
        _run(*command, *words.split()) for words in ("--help", "history --help", "gate --help", "gate --store=none.db")
    ]
    assert "roofreport history add RESULT" in said[-1].stderr
    assert not [text for one in said for text in (one.stdout, one.stderr) if "tools/" in text]


_WITHOUT = """
import sys
sys.path.insert(0, sys.argv[1])
sys.modules["sqlalchemy"] = None
from roofreport.cli import main
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.parametrize(
    "arguments", ["gate", "history list", "site --out=site", "accept a --since=2026-01-01 --why=meant"]
)
def test_a_verb_names_the_package_that_it_lacks(arguments: str) -> None:
    done = _run(sys.executable, "-c", _WITHOUT, _TOOLS, *arguments.split())
    assert done.returncode == 2, done.stderr
    assert done.stderr == "tools/report: the Python package sqlalchemy is missing; tools/setup installs it\n"


def test_no_message_names_a_package_that_anybody_may_take() -> None:
    """On PyPI there is neither roofbench nor roofreport."""
    sources = [*(_TOOLS / "roofreport").rglob("*.py"), *(builders.ROOT / "python").rglob("*.py")]
    sources += [*(builders.ROOT / "docs").glob("*.md"), *(builders.ROOT / "python").glob("*.toml")]
    taken = re.compile(r"install '?roof(bench|report)|\"roof(bench|report)\[")
    assert not [path for path in sources if taken.search(path.read_text())]


def test_reports_need_neither_torch_nor_transformers() -> None:
    names = set(re.findall(r"^([\w.-]+)==", (_TOOLS / "requirements-report.txt").read_text(), re.MULTILINE))
    assert names == {"numpy", "scipy", "fastjsonschema", "Jinja2", "matplotlib"}
    modules = [
        ".".join(path.relative_to(_TOOLS).with_suffix("").parts)
        for path in (_TOOLS / "roofreport").rglob("*.py")
        if path.stem not in ("__main__", "__init__")
    ]
    program = f"import sys, importlib\nfor name in {modules!r}: importlib.import_module(name)\nprint(*sys.modules)"
    done = _run("env", f"PYTHONPATH={_TOOLS}", sys.executable, "-c", program)
    assert done.returncode == 0, done.stderr
    assert not _HEAVY & set(done.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "heavy"),
    [
        ("--help", "scipy matplotlib numpy"),
        ("table --help", "scipy matplotlib numpy"),
        ("history --help", "sqlalchemy pyarrow psycopg numpy"),
        ("roofline RESULT --html=PAGE", "scipy torch bokeh"),  # tools/bench ends with it,
        ("machine RESULT --html=PAGE", "scipy torch bokeh"),  # or with this
    ],
)
def test_nothing_heavy_is_imported(arguments: str, heavy: str, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    result = builders.write_json(tmp_path / "a.json")
    given = arguments.replace("RESULT", str(result)).replace("PAGE", str(page)).split()
    program = (
        "import sys\nfrom roofreport.cli import main\n"
        f"try: main({given!r})\nexcept SystemExit: pass\nprint(*sys.modules, file=sys.stderr)"
    )
    done = _run("env", f"PYTHONPATH={_TOOLS}", sys.executable, "-c", program)
    assert "usage:" in done.stdout or page.exists()
    assert not set(heavy.split()) & set(done.stderr.split())


def test_the_version_is_that_of_the_project() -> None:
    (ours,) = re.findall(r'^version = "(.*)"$', (builders.ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    (theirs,) = re.findall(r"project\(roofbench VERSION (\S+)", (builders.ROOT / "CMakeLists.txt").read_text())
    assert ours == theirs


_LAYERS = ("io", "history", "stats", "compare", "gate", "render", "site", "verbs", "studies")


def test_a_layer_sees_those_below_it_alone() -> None:
    for path in sorted((_TOOLS / "roofreport").glob("*/*.py")):
        layer = _LAYERS.index(path.parent.name)
        tree = ast.parse(path.read_text())
        seen = {
            node.module.split(".")[1]
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("roofreport.")
        }
        assert not seen & set(_LAYERS[layer + 1 :]), path
