"""Where things are: the only reader of environment variables and the only decider of paths.

``MIDCHART_DATA`` (default ``data/``), ``MIDCHART_CACHE`` (default ``cache/``) and
``MIDCHART_MODELS`` (default ``cache/models/``). Read afresh at each call, so tests and
worker processes need no reload. Nothing is made here; writers make their folders.

Keys of services (``ANTHROPIC_API_KEY``, ``MIDCHART_SERVED_KEY``) come from the environment or
from Streamlit's secrets file (``.streamlit/secrets.toml`` beside app.py, then in the home folder;
``MIDCHART_SECRETS`` names another). They are handed on as :class:`Secret`, which shows itself
nowhere.
"""

from __future__ import annotations

import os
import pwd
import tomllib
from pathlib import Path

from core.errors import InputError

ROOT = Path(__file__).resolve().parent.parent
"""The folder that holds app.py."""


def _folder(variable: str, default: Path) -> Path:
    value = os.environ.get(variable, "").strip()
    return Path(value).expanduser().resolve() if value else default


def data_folder() -> Path:
    """Root of all data."""
    return _folder("MIDCHART_DATA", ROOT / "data")


def cohorts_folder() -> Path:
    """Where cohorts lie, a folder each."""
    return data_folder() / "cohorts"


def runs_folder() -> Path:
    """Where runs lie, a folder each; the program never deletes one."""
    return data_folder() / "runs"


def published_folder() -> Path:
    """The paper's figures, which come with the program."""
    return ROOT / "data" / "published"


def shipped_folder() -> Path:
    """Exports of finished runs, which come with the program."""
    return ROOT / "data" / "published-runs"


def cache_folder() -> Path:
    """What can be made again; deleting it costs time, never results."""
    return _folder("MIDCHART_CACHE", ROOT / "cache")


def models_folder() -> Path:
    """Where weights that the user brought are looked for first."""
    return _folder("MIDCHART_MODELS", cache_folder() / "models")


def audit_file() -> Path:
    """What left this machine or was allowed to: one line a use, only ever added to."""
    return data_folder() / "audit.jsonl"


def user() -> str:
    """Who is at work, for the audit file: the account's name, or its number where it has none."""
    number = os.getuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


class Secret:
    """A key. It prints as dots wherever it lands; only :meth:`reveal` gives it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The key itself, for the one place that sends it."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(•••)"

    def __reduce__(self) -> str:
        raise TypeError("a key is never written down")


def secrets_files() -> tuple[Path, ...]:
    """Where keys may lie, the first that has one wins."""
    named = os.environ.get("MIDCHART_SECRETS", "").strip()
    if named:
        return (Path(named).expanduser(),)
    return (ROOT / ".streamlit" / "secrets.toml", Path.home() / ".streamlit" / "secrets.toml")


def secret(name: str) -> Secret | None:
    """The key ``name`` from the environment or a secrets file; None where neither has it.

    Raises InputError for a secrets file that cannot be read, without a word of what is in it.
    """
    value = os.environ.get(name, "").strip()
    if value:
        return Secret(value)
    for path in secrets_files():
        try:
            table = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            raise InputError(
                f"{path}: cannot be read as TOML ({type(error).__name__}); fix it, or set {name} "
                "in the environment"
            ) from None
        found = table.get(name)
        if isinstance(found, str) and found.strip():
            return Secret(found.strip())
    return None


def gpus() -> tuple[str, ...]:
    """Names of the GPUs that this program may use, as ``CUDA_VISIBLE_DEVICES`` lists them.

    Asked of the environment and the machine's device files, so that no library is loaded for it.
    ``MIDCHART_GPUS`` carries the list to workers, each of which sees one of them or none.
    """
    for variable in ("MIDCHART_GPUS", "CUDA_VISIBLE_DEVICES"):
        value = os.environ.get(variable)
        if value is not None:
            names = [name.strip() for name in value.split(",")]
            return tuple(name for name in names if name and name != "-1")
    found = [path.name.removeprefix("nvidia") for path in Path("/dev").glob("nvidia[0-9]*")]
    return tuple(sorted(found, key=int))


def be_member(rank: int, size: int) -> None:
    """Tell libraries that read it from the environment that this process is one of a team."""
    places = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size}
    os.environ.update({name: str(value) for name, value in places.items()})
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def worker_environment(gpu: str | None = None) -> dict[str, str]:
    """Environment for a worker process: this one's, with the folders pinned.

    ``gpu``: the one GPU it sees, or nothing for none; None leaves them as they are here.
    """
    return {
        **os.environ,
        "MIDCHART_GPUS": ",".join(gpus()),
        **({} if gpu is None else {"CUDA_VISIBLE_DEVICES": gpu}),
        "MIDCHART_DATA": str(data_folder()),
        "MIDCHART_CACHE": str(cache_folder()),
        "MIDCHART_MODELS": str(models_folder()),
        "PYTHONUNBUFFERED": "1",
    }


def ray_environment(loopback: bool, token: str = "") -> dict[str, str]:
    """What a worker adds to its environment where its run is done on Ray.

    Ray tells its makers nothing and gives up soon where no cluster answers. ``loopback``: it is
    on this machine alone, and neither listens nor calls anywhere else (Ray has that switch for
    laptops, whence its name). ``token``: a word without which nobody else on this machine may give
    it work; a cluster that is joined has its own.
    """
    own = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token} if token else {}
    only_here = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"} if loopback else {}
    return {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_NUM_REDIS_GET_RETRIES": "1",
        "RAY_py_gcs_connect_timeout_s": "10",
        **only_here,
        **own,
    }
