"""Shared by every measuring command: tables, CSV, progress, plots, pages, wording, flags."""
