"""Dates of Django's own pages in English, written as the other pages write them. Other languages keep Django's."""

from __future__ import annotations

DATE_FORMAT = "M j, Y"
SHORT_DATE_FORMAT = DATE_FORMAT
DATETIME_FORMAT = "M j, Y, g:i A"
SHORT_DATETIME_FORMAT = DATETIME_FORMAT
