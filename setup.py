"""The tree's folders are the package ``midchart``: ``core`` is ``midchart.core``, and so on."""

from setuptools import find_packages, setup

TOP = ("core", "pages", "extras")
NAMES = find_packages(include=[pattern for name in TOP for pattern in (name, f"{name}.*")])
setup(packages=["midchart", *(f"midchart.{name}" for name in NAMES)])
