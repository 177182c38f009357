"""Paths and environment variables; no other module reads the environment or decides paths.

``MIDCHART_DATA``, ``MIDCHART_CACHE`` and ``MIDCHART_MODELS`` are read at each call; installed from
a wheel, their defaults are the user's own folders (XDG Base Directory Specification 0.8).
``MIDCHART_STATE`` is always outside of the data folder. No folder is created here. Service keys
come from the environment or from Streamlit's secrets file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from midchart.core.errors import DataError, InputError
from midchart.core.parsing import read_named, read_toml, user_path

ROOT = Path(__file__).resolve().parent.parent
"""The folder that holds app.py: a checkout, or the installed package."""
CHECKOUT = (ROOT / "Makefile").is_file()


def _folder(variable: str, default: Path) -> Path:
    value = os.environ.get(variable, "").strip()
    if not value:
        return default
    return user_path(value).resolve()


def _of_user(name: str, variable: str, in_home: str) -> Path:
    """``name`` of a checkout; installed, Midchart's folder below ``variable`` or ``~/in_home``."""
    if CHECKOUT:
        return ROOT / name
    named = Path(os.environ.get(variable, ""))
    return (named if named.is_absolute() else Path.home() / in_home) / "midchart"


def data_folder() -> Path:
    """Root of all data."""
    return _folder("MIDCHART_DATA", _of_user("data", "XDG_DATA_HOME", ".local/share"))


def completing() -> bool:
    """Whether a shell asks what may follow on the command line (argcomplete)."""
    return "_ARGCOMPLETE" in os.environ


def cohorts_folder() -> Path:
    """Folder of cohorts, a folder each."""
    return data_folder() / "cohorts"


def runs_folder() -> Path:
    """Folder of runs, a folder each; the program never deletes one."""
    return data_folder() / "runs"


def reviews_folder(run: str = "") -> Path:
    """The folder of the reviewers' files of a run, or of all runs."""
    return data_folder() / "reviews" / run


def received_folder() -> Path:
    """Files of other systems that people may name who sign in: logs for an audit, their ids."""
    return data_folder() / "logs"


def gates_folder() -> Path:
    """Trained gates, a folder each."""
    return cache_folder() / "gates"


def calibrations_folder() -> Path:
    """Calibrations of the arm ``certain``, a file each."""
    return cache_folder() / "calibrations"


def published_folder() -> Path:
    """The paper's figures, included in the program."""
    return ROOT / "data" / "published"


def shipped_folder() -> Path:
    """Exports of finished runs, included in the program."""
    return ROOT / "data" / "published-runs"


def wait_passively() -> None:
    """Have OpenMP's threads sleep while they wait, unless the environment says otherwise: on busy
    cores they double the work. To be called before torch is first imported."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def cache_folder() -> Path:
    """Derived data; deleting it costs time, never results."""
    return _folder("MIDCHART_CACHE", _of_user("cache", "XDG_CACHE_HOME", ".cache"))


def imports_lock() -> Path:
    """Lock held while an import begins or takes its place, and while something is removed."""
    return data_folder() / "imports.lock"


def models_folder() -> Path:
    """Folder in which model weights are searched first."""
    return _folder("MIDCHART_MODELS", cache_folder() / "models")


def audit_file() -> Path:
    """Append-only log of data that left this machine or was permitted to, by the folder's own
    path."""
    return data_folder().resolve() / "audit.jsonl"


STATE = "MIDCHART_STATE"


def state_folder() -> Path:
    """What the program remembers outside of its data folders: digests of what it generated, and of
    cohorts' files. Raises InputError where it would be in the data."""
    named = os.environ.get("XDG_STATE_HOME", "")
    try:
        usual = Path(named) if Path(named).is_absolute() else Path.home() / ".local" / "state"
    except RuntimeError:  # an account without a home: nothing can be written there
        usual = Path("/nonexistent")
    folder = _folder(STATE, (usual / "midchart").resolve())
    if folder.is_relative_to(data_folder().resolve()):
        raise InputError(f"{folder} is in the data folder; set {STATE} to a folder outside of it")
    return folder


@cache
def user() -> str:
    """Name of the account for the audit log, or its number where it has none."""
    import pwd  # not on Windows, where the command line explains itself

    number = os.getuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


OPEN = "MIDCHART_WITHOUT_SIGN_IN"


def without_sign_in() -> bool:
    """Whether the owner lets the app serve other machines without sign-in (``OPEN`` is "yes")."""
    return os.environ.get(OPEN, "").strip().lower() == "yes"


class Secret:
    """A service key; its repr is dots, and only :meth:`reveal` returns it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The key itself, for the request that sends it."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(•••)"

    def __reduce__(self) -> str:
        raise TypeError("a key is never written down")


def secrets_files() -> tuple[Path, ...]:
    """Files with keys; the first that has a key is used."""
    named = os.environ.get("MIDCHART_SECRETS", "").strip()
    if named:
        return (user_path(named),)
    return (ROOT / ".streamlit" / "secrets.toml", Path.home() / ".streamlit" / "secrets.toml")


def secret(name: str) -> Secret | None:
    """The key ``name`` from the environment or a secrets file; None where neither has it.

    Raises InputError for a secrets file that cannot be read, without quoting it.
    """
    value = os.environ.get(name, "").strip()
    if value:
        return Secret(value)
    for path in secrets_files():
        try:
            table = read_toml(read_named(path), str(path))
        except FileNotFoundError:
            continue
        except (OSError, DataError) as error:
            why = error.strerror if isinstance(error, OSError) else type(error).__name__
            raise InputError(
                f"{path}: cannot be read as TOML ({why}); fix it, or set {name} in the environment"
            ) from None
        secret = table.get(name)
        if isinstance(secret, str) and secret.strip():
            return Secret(secret.strip())
    return None


CLAUDE_HOST, CLAUDE_KEY = "api.anthropic.com", "ANTHROPIC_API_KEY"
HOSTS = "MIDCHART_HOSTS"
"""The owner's list (:mod:`midchart.core.egress.owners_list`)."""


def environment_proxy(scheme: str, host: str) -> str:
    """The proxy that the environment names for an address (``HTTPS_PROXY``, ``NO_PROXY``); ""
    for none."""
    import urllib.request as library  # its stubs lack proxy_bypass_environment

    proxies = library.getproxies_environment()
    proxy = proxies.get(scheme) or proxies.get("all") or ""
    bypasses: Callable[..., Any] = getattr(library, "proxy_bypass_environment")  # noqa: B009
    return "" if not proxy or bypasses(host, proxies) else proxy


def gpus() -> tuple[str, ...]:
    """Names of the GPUs that this program may use, as ``CUDA_VISIBLE_DEVICES`` lists them, without
    loading a library; ``MIDCHART_GPUS`` passes the list to workers."""
    for variable in ("MIDCHART_GPUS", "CUDA_VISIBLE_DEVICES"):
        value = os.environ.get(variable)
        if value is not None:
            names = [name.strip() for name in value.split(",")]
            return tuple(name for name in names if name and name != "-1")
    numbers = [path.name.removeprefix("nvidia") for path in Path("/dev").glob("nvidia[0-9]*")]
    return tuple(sorted(numbers, key=int))


def worker_environment(gpu: str | None = None) -> dict[str, str]:
    """Environment for a worker process: this one's, with the folders pinned.

    ``gpu``: the one GPU it sees, "" for none; None leaves all.
    """
    return {
        **os.environ,
        "MIDCHART_GPUS": ",".join(gpus()),
        **({} if gpu is None else {"CUDA_VISIBLE_DEVICES": gpu}),
        **_folders(),
        "PYTHONUNBUFFERED": "1",
    }


def shared_environment() -> dict[str, str]:
    """Environment of a worker on another machine: folders that every machine sees. Keys of services
    are read on its own machine."""
    return {**_folders(), "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}


def _folders() -> dict[str, str]:
    return {
        "MIDCHART_DATA": str(data_folder()),
        "MIDCHART_CACHE": str(cache_folder()),
        "MIDCHART_MODELS": str(models_folder()),
        STATE: str(state_folder()),
    }


def set_environment(variables: Mapping[str, str]) -> None:
    """Take over the variables of the process that asks this one to work."""
    os.environ.update(variables)


def one_thread() -> None:
    """Have numerical libraries of this process compute in one thread, those too that it loads
    later."""
    from threadpoolctl import threadpool_limits

    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"
    threadpool_limits(1)


def ray_environment(loopback: bool, token: str = "") -> dict[str, str]:
    """Environment variables of a worker whose run is done on Ray, without usage statistics.
    ``loopback``: Ray neither listens nor calls outside this machine. ``token``: required of every
    client of a Ray started for this run."""
    authentication = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token} if token else {}
    local = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"} if loopback else {}
    return {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_NUM_REDIS_GET_RETRIES": "1",
        "RAY_py_gcs_connect_timeout_s": "10",
        **local,
        **authentication,
    }
