"""The report of a comparison: one page of Markdown, one of HTML, and the plots."""

from steelyard_loadtest.lab.report.files import write

__all__ = ["write"]
