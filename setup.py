"""The tree's folders are the package ``midchart``: ``core`` is ``midchart.core``, ``pages`` too."""

from setuptools import find_packages, setup

NAMES = find_packages(include=["core", "core.*", "pages", "pages.*"])
setup(packages=["midchart", *(f"midchart.{name}" for name in NAMES)])
