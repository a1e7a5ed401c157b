"""The page of a comparison, in Markdown, and its plots."""
