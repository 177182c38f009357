"""Stages the documents of the site in ``.tools/site``; ``make docs`` then builds ``site/`` of them.

Documents keep their links for a git host. Here a link that leaves ``docs/`` points at the copy of
its file. The command line is written from its parser, the reference from the names of the API.
"""

from __future__ import annotations

import argparse
import ast
import re
import shutil
from itertools import groupby
from pathlib import Path

from midchart.core import api
from midchart.core.cli import COMMANDS, GROUPS, _parser

ROOT = Path(__file__).resolve().parents[2]
DOCS, STAGED, PACKAGE = ROOT / "docs", ROOT / ".tools/site/docs", ROOT / ".tools/site/package"
OUTSIDE = {
    "CHANGELOG.md": "CHANGELOG.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "SECURITY.md": "SECURITY.md",
    "core/readers/shipped/small/README.md": "model-card.md",
    "README.md": "index.md",
}
"""Files of the checkout outside of ``docs/`` that are part of the site, and their names there."""
_SOURCES = shutil.ignore_patterns("__pycache__", "shipped", "*.safetensors", "*.json")
_LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)]*)?\))")


def _name(document: str) -> str:
    """The name of a document on the site, where a README.md would be the start page."""
    return "documents.md" if document == "README.md" else document


def staged_text(file: Path) -> str:
    """A document with links to the files as they are staged; raises SystemExit for a dead one."""

    def link(match: re.Match[str]) -> str:
        before, target, after = match.groups()
        if "://" in target or target.startswith("mailto:"):
            print(f"external, not fetched: {file.name}: {target}")
            return match.group()
        path = (file.parent / target).resolve()
        if not path.exists():
            raise SystemExit(f"{file}: the link to {target} leads nowhere")
        inside = path.relative_to(ROOT).as_posix()
        inside = OUTSIDE.get(inside) or _name(inside.removeprefix("docs/"))
        if path.is_dir():
            return match.group().replace(target, f"{inside}/README.txt")
        return f"{before}{inside}{after}"

    # Lines of code hold no links.
    parts = re.split(r"(```.*?```|`[^`\n]*`)", file.read_text("utf-8"), flags=re.S)
    return "".join(part if part.startswith("`") else _LINK.sub(link, part) for part in parts)


def command_line() -> str:
    """The page of the command line, by groups."""
    actions = next(a for a in _parser()._actions if isinstance(a, argparse._SubParsersAction))
    lines = [
        "# Command line",
        "",
        "`midchart COMMAND`, or `python -m midchart.core COMMAND` in a checkout.",
        "",
    ]
    lines += [
        "Exit status: 0 done, 1 the work failed, 2 the input or the call was wrong.",
        "`--json` prints one JSON document.",
        "",
    ]
    for group in GROUPS:
        lines += [f"## {group}", ""]
        for name, command in COMMANDS.items():
            if command.group == group:
                usage = actions.choices[name].format_help().partition("\nexamples:")[0].rstrip()
                lines += [f"### {name}", "", f"{command.help}.", "", "```text", usage, "```", ""]
                lines += ["```sh", *command.examples, "```", ""]
    return "\n".join(lines)


def reference() -> str:
    """The page of ``midchart.core.api``: every name by the module that defines it."""
    named = sorted({(f"midchart.core.{module}", name) for module, name in api.HOMES.values()})
    lines = [
        "# midchart.core.api",
        "",
        "What pages, notebooks and the command line call, by the module that defines it.",
        "",
    ]
    for module, names in groupby(named, key=lambda one: one[0]):
        lines += [f"## {module.removeprefix('midchart.core.')}", ""]
        lines += [f"::: {module}.{name}\n" for _, name in names]
    return "\n".join(lines)


def notebook() -> str:
    """The page of ``import midchart``."""
    tree = ast.parse((ROOT / "core" / "notebook.py").read_text("utf-8"))
    functions = [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    ]
    lines = [
        "# import midchart",
        "",
        "The functions of a notebook; [Notebook](notebook.md) has an example of each.",
        "",
    ]
    return "\n".join([*lines, *(f"::: midchart.core.notebook.{name}\n" for name in functions)])


def main() -> None:
    for folder in (STAGED, PACKAGE):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    shutil.copytree(ROOT / "core", PACKAGE / "midchart" / "core", ignore=_SOURCES)
    shutil.copy(ROOT / "__init__.py", PACKAGE / "midchart")
    for file in DOCS.rglob("*"):
        place = STAGED / file.relative_to(DOCS)
        if file.is_file() and file.suffix != ".md" and "site" not in file.relative_to(DOCS).parts:
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, place)
    listing = "\n".join(sorted(f.name for f in (STAGED / "optional").iterdir()))
    (STAGED / "optional" / "README.txt").write_text(listing + "\n", "utf-8")
    documents = {file: _name(file.name) for file in DOCS.glob("*.md")}
    documents |= {ROOT / name: staged for name, staged in OUTSIDE.items() if name != "README.md"}
    for file, name in documents.items():
        (STAGED / name).write_text(staged_text(file), "utf-8")
    for name in ("index.md", "gallery.md"):
        shutil.copy(DOCS / "site" / name, STAGED / name)
    for name, text in (
        ("command-line", command_line()),
        ("api", reference()),
        ("api-notebook", notebook()),
    ):
        (STAGED / f"{name}.md").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
