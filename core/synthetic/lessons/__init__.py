"""Lessons: records and questions made for training readers, and for nothing else.

They have the shape of what the application gives a reader, but patients, values and wordings of
their own: none of an examined cohort (``apart.shared`` tells, and training refuses otherwise).
"""

from __future__ import annotations

from core.synthetic.lessons.making import kinds, lesson, make_lesson
from core.synthetic.lessons.model import Lesson, LessonPlan, LessonQuestion

__all__ = [
    "Lesson",
    "LessonPlan",
    "LessonQuestion",
    "kinds",
    "lesson",
    "make_lesson",
]
