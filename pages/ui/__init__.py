"""Frames of the gallery: guard, navigation, theme, tables, charts, and the only caches of pages."""
