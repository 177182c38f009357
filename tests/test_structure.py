"""Structure of the code: no import cycle, `import core.api` is light, importing writes nothing."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections import Counter
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

from tests.sizes import repeated_class_names
from tests.support.opened_by_name import opened_by_name

ROOT = Path(__file__).parents[1]
HEAVY = ["torch", "transformers", "sentence_transformers", "anthropic", "streamlit"]
HEAVY += ["scipy", "sklearn", "pandas", "pyarrow"]
TRACKED = [p for d in ("core", "pages", "tests") for p in (ROOT / d).rglob("*.py")] + [
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
    assert folders == {"published", "published-runs"}


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
            assert "guard.page(" in ast.unparse(first), f"{page.name} must begin with the guard"


def test_the_top_level_has_no_other_folder():
    done = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    tops = {line.split("/")[0] for line in done.stdout.splitlines()}
    files = {t for t in tops if not t.startswith(".")}
    assert files <= {
        "__init__.py", "py.typed", "setup.py",
        "app.py", "pages", "core", "data", "cache", "tests", "requirements.txt",
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


SHIPPED = "a file of the program itself"
WEIGHTS = "weights and their settings, in a folder that the account installs"
WRITTEN = "a file that this process has just written, in a folder that it made"
OPENS = "opens by descriptor, and checks what was opened"
SYSTEM = "a file of the system"
BY_NAME = {
    ("api.py", "_homes"): SHIPPED,
    ("arms/llmlingua2.py", "Compressor.__init__"): WEIGHTS,
    ("attention/__init__.py", "Attentions.title"): SHIPPED,
    ("egress/owners_list.py", "_listeners"): SYSTEM,
    ("embedding/embedder.py", "Bert.__init__"): WEIGHTS,
    ("embedding/embedder.py", "_settings"): WEIGHTS,
    ("embedding/embedder.py", "width"): WEIGHTS,
    ("embedding/pairs.py", "labels_of"): WEIGHTS,
    ("provenance.py", "code_digest"): SHIPPED,
    ("readers/gemma.py", "join"): WEIGHTS,
    ("readers/gguf.py", "Gguf.check"): WEIGHTS,
    ("readers/qwen.py", "_config"): WEIGHTS,
    ("readers/qwen.py", "_end_ids"): WEIGHTS,
    ("registry.py", "Registry._modules"): SHIPPED,
    ("regular_files.py", "_open_by_folders"): OPENS,
    ("regular_files.py", "_open_directly"): OPENS,
    ("results/claims.py", "_run_of"): SHIPPED,
    ("results/claims.py", "states"): SHIPPED,
    ("results/export.py", "_template"): SHIPPED,
    ("results/export.py", "_write"): WRITTEN,
    ("results/export.py", "_zip"): WRITTEN,
    ("results/export_formats.py", "_write_every_eval_ever"): WRITTEN,
    ("results/tables.py", "read_published"): SHIPPED,
    ("runs/spec.py", "presets"): SHIPPED,
    ("sequences/build.py", "_build"): WRITTEN,
    ("services/abstention.py", "error_rates"): SHIPPED,
    ("services/benchmark.py", "suite"): SHIPPED,
    ("services/runs.py", "_files"): SHIPPED,
    ("services/runs.py", "export_bytes"): WRITTEN,
    ("services/runs.py", "replication_specs"): SHIPPED,
    ("services/runs.py", "shipped_runs"): SHIPPED,
    ("storage/chain.py", "ChainedLog._opened"): OPENS,
    ("storage/files.py", "open_private"): OPENS,
    ("storage/files.py", "replacing"): WRITTEN,
    ("storage/files.py", "sync_folder"): "a folder, whose names are made to last",
    ("storage/packed_tables.py", "checked_batches"): "an open file that its caller passes",
    ("storage/rows.py", "_write_aside"): WRITTEN,
    ("storage/rows.py", "compact"): WRITTEN,
    ("synthetic/reference.py", "read_tsv"): SHIPPED,
    ("synthetic/reference.py", "read_yaml"): SHIPPED,
    ("text/chat_template.py", "has_template"): WEIGHTS,
    ("weights.py", "_in_hub_cache"): WEIGHTS,
    ("weights.py", "fingerprint"): WEIGHTS,
    ("weights.py", "mark"): WEIGHTS,
}
"""Module of ``core`` and function that opens a file by its name to read it, and why it may."""


def test_the_engine_opens_files_by_descriptor():
    core = ROOT / "core"
    calls: dict[tuple[str, str], list[str]] = {}
    for path in sorted(core.rglob("*.py")):
        for function, call in opened_by_name(path.read_text(encoding="utf-8")):
            calls.setdefault((path.relative_to(core).as_posix(), function), []).append(call)
    others = {place: names for place, names in calls.items() if place not in BY_NAME}
    assert not others, "read it by midchart.core.regular_files"
    assert not BY_NAME.keys() - calls.keys(), "opens nothing by its name any more; strike it out"


OPENING = """
class A:
    def text(self, path):
        return path.read_text("utf-8"), list(map(Path.read_bytes, [path]))

def builtin(path):
    with open(path) as file:
        return file.read()

def of_path(path):
    return path.open(), path.open("rb"), path.open(encoding="utf-8")

def arrays(path):
    return np.load(path), parquet.read_table(path), load_file(path), safe_open(path, "pt")

def archives(path):
    return gzip.open(path), zipfile.ZipFile(path), os.open(path, 0), shutil.copyfile(path, "a")

def writing(path):
    path.open("w"), path.open(mode="xb"), open(path, "a"), zipfile.ZipFile(path, "w")

def opened(path, archive):
    file = open_regular(path)
    with open_regular(path) as one, archive.open(path) as member, np.load(one) as state:
        return parquet.read_table(member), gzip.open(io.BytesIO(b"")), zipfile.ZipFile(file)

def others(store, name):
    return EventStore.open(name), folder.open(folder.log), read_table(name), read_text(name, "a")
"""


def test_calls_that_open_a_file_by_its_name_are_recognised():
    counts = Counter(function for function, _ in opened_by_name(OPENING))
    assert counts == {"A.text": 2, "builtin": 1, "of_path": 3, "arrays": 4, "archives": 4}
    shadowed = "def open(data): ...\ndef use(data):\n    return open(data)\n"
    assert list(opened_by_name(shadowed)) == []
