"""Frames of the gallery, a room for each page; beside them what all share: guard, menu, memory."""
