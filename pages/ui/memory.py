"""Memory of the server's process and of its sessions."""

from __future__ import annotations

import ctypes
import platform

from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.state.safe_session_state import SafeSessionState

M_MMAP_THRESHOLD = -3
"""Parameter of glibc's ``mallopt``: the size in bytes from which a block is allocated by mmap."""
INITIAL_THRESHOLD = 128 << 10
"""Glibc's own value of it at the start of a process."""


def return_freed_blocks() -> bool:
    """Return every freed block of 128 KiB or more to the operating system; gives whether the
    allocator was set so.

    Glibc raises its threshold up to 32 MB when larger blocks are freed. Later blocks are then taken
    from its heaps, which the short-lived threads of a server fragment: the heaps grow with the
    number of reruns while most of their memory is free. Other C libraries are not changed.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    return bool(ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, INITIAL_THRESHOLD))


def forget_widgets() -> int:
    """Forget the session's widgets that its last run did not show; gives how many.

    Streamlit drops the value of such a widget and holds on to its description, with options, tables
    and functions, as long as the session lives. Called where a run of the whole page begins: by
    then callbacks are done, and what the page shows is described anew.
    """
    context = get_script_run_ctx()
    if context is None:
        return 0
    guarded = state = context.session_state
    while isinstance(state, SafeSessionState):  # one around another, where a test runs the page
        state = state._state
    with guarded._lock:
        described = state._new_widget_state.widget_metadata
        unseen = described.keys() - state._new_widget_state.states.keys() - state._old_state.keys()
        for id in unseen:
            del described[id]
    return len(unseen)
