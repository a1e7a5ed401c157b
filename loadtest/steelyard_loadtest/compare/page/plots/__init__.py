"""The page's plots, one kind a file; each draws a view into a PNG."""
