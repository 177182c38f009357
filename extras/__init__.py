"""Extensions that few use; each is found by its entry points, as a package of others would be.

``midchart.core`` and ``midchart.pages`` import none of them: the product works where this folder
is missing. Their entry points are in ``pyproject.toml`` (docs/extras.md).
"""
