"""Midchart's entrance: the list of pages, grouped by what people come for. It shows nothing itself.

Run with ``streamlit run app.py`` (or ``make app``, which also makes the demo cohort).
"""

from pages.ui import navigation

navigation.declare().run()
