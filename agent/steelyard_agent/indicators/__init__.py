"""The application's own indicators: declarations, sources and readings; `indicator_reader` reads them."""
