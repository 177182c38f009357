"""Structure of the code: no import cycle, `import core.api` is light, importing writes nothing."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

from tests.sizes import repeated_class_names

ROOT = Path(__file__).parents[1]
HEAVY = ["torch", "transformers", "sentence_transformers", "anthropic", "streamlit"]
HEAVY += ["scipy", "sklearn", "pandas", "pyarrow"]
TRACKED = [p for d in ("core", "pages", "extras", "tests") for p in (ROOT / d).rglob("*.py")] + [
    ROOT / "app.py"
]


@pytest.mark.slow
def test_importing_core_api_loads_nothing_heavy_and_writes_nothing(tmp_path):
    code = (
        "import sys, json\nfrom midchart.core import api\n"
        "[getattr(api, name) for name in dir(api)]\n"
        f"print(json.dumps([m for m in {HEAVY} if m in sys.modules]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={
            "MIDCHART_DATA": str(tmp_path / "d"),
            "MIDCHART_CACHE": str(tmp_path / "c"),
            "PATH": "",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == []
    assert list(tmp_path.iterdir()) == []


def test_every_file_has_a_docstring():
    without = [str(p.relative_to(ROOT)) for p in TRACKED if not p.read_bytes().startswith(b'"""')]
    assert not without, "a file without a docstring"
    assert len(TRACKED) > 300, "too few files were looked at"


def test_of_the_folder_data_only_published_results_are_in_the_repository():
    """An audit log's head in a fresh clone would report that log as broken."""
    listed = subprocess.run(
        ["git", "ls-files", "data"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    folders = {name.split("/")[1] for name in listed.stdout.split()}
    assert folders == {"demo", "published", "published-runs"}


def test_only_the_configuration_reads_the_environment():
    readers = [
        str(p.relative_to(ROOT))
        for p in (ROOT / "core").rglob("*.py")
        if "os.environ" in p.read_text(encoding="utf-8")
        or "getenv" in p.read_text(encoding="utf-8")
    ]
    assert readers == ["core/config.py"]


def test_core_has_no_import_cycle():
    """Imports for types alone and those inside functions count as well."""
    graph = grimp.build_graph("midchart", cache_dir=None)
    core = [name for name in graph.modules if name.startswith("midchart.core")]
    needs = {name: graph.find_modules_directly_imported_by(name) for name in core}
    assert needs["midchart.core.api"]
    TopologicalSorter(needs).prepare()  # raises CycleError, which names the cycle


def test_pages_begin_with_the_guard_and_cache_nothing():
    for page in (ROOT / "pages").glob("*.py"):
        text = page.read_text(encoding="utf-8")
        assert "st.cache" not in text, page.name
        if page.name != "__init__.py":
            body = [
                n for n in ast.parse(text).body if not isinstance(n, ast.Import | ast.ImportFrom)
            ]
            first = body[1] if isinstance(body[0], ast.Expr) else body[0]
            assert "navigation.page(" in ast.unparse(first), f"{page.name} begins otherwise"


def test_the_top_level_has_no_other_folder():
    done = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    tops = {line.split("/")[0] for line in done.stdout.splitlines()}
    files = {t for t in tops if not t.startswith(".")}
    assert files <= {
        "__init__.py", "py.typed", "setup.py",
        "app.py", "pages", "core", "extras", "data", "cache", "tests", "requirements.txt",
        "README.md", "SECURITY.md", "Makefile", "requirements.lock",
        "CHANGELOG.md", "CONTRIBUTING.md", "CITATION.cff", "docs", "pyproject.toml",
    }  # fmt: skip


def test_the_index_of_documents_links_every_file_of_docs():
    """Pictures are shown by the documents themselves."""
    folder = ROOT / "docs"
    links = set(re.findall(r"\]\(([^)]+)\)", (folder / "README.md").read_text(encoding="utf-8")))
    files = {p.name for p in folder.iterdir() if p.is_file() and p.suffix != ".png"}
    assert files - {"README.md"} == {link for link in links if "/" not in link}
    assert all((folder / link).exists() for link in links)


def test_no_two_classes_have_one_name():
    """Of core and pages, private ones too: a name means one thing."""
    assert repeated_class_names() == []
