"""Changes of the built pages: references of docstrings are shown as code."""

import re
from typing import Any

_ROLE = re.compile(r":(?:func|class|mod|meth|data|attr):(?=<code>)")


def on_post_page(output: str, **_: Any) -> str:
    """A page without the roles of Sphinx's references."""
    return _ROLE.sub("", output)
