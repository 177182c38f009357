"""Midchart's entry point: what the server requires of requests, and the list of pages.

Run with ``streamlit run app.py`` (or ``make app``, which also makes the demo cohort). The server
imports this file for ``app``; each session runs it as a script.
"""

import streamlit as st

from midchart.core.errors import InputError, require_posix

if __name__ == "__main__":
    try:
        require_posix()
    except InputError as error:
        st.error(str(error))
        st.stop()

    from midchart.pages.ui import navigation

    navigation.declare().run()
else:
    import sys
    import threading
    from contextlib import suppress
    from importlib import import_module

    from starlette.middleware import Middleware

    from midchart.core import api
    from midchart.core.errors import MidchartError
    from midchart.pages.ui import server, sign_in

    if problem := sign_in.refusal():
        print(f"midchart: {problem}", file=sys.stderr)
        sys.exit(2)

    server.return_freed_blocks()
    for line in api.recover():
        print(f"midchart: {line}", file=sys.stderr)

    def read_cohorts() -> None:
        """Open the cohorts that the first page lists."""
        with suppress(MidchartError):  # the page says what cannot be read
            api.cohorts()

    # Imported before the server answers: two threads that import one package disturb each other.
    for name in ("midchart.pages.ui.home_view", "midchart.pages.ui.patient.view"):
        import_module(name)
    threading.Thread(target=read_cohorts, daemon=True).start()
    app = st.App(
        __file__,
        routes=server.routes(st.get_option("server.baseUrlPath")),
        middleware=[
            Middleware(server.SecurityHeaders),
            Middleware(server.OwnOrigin, sign_in.trusted_origins),
            *sign_in.middleware(),
        ],
    )
