"""The report of a comparison: one page of Markdown, one of HTML, and the plots."""
