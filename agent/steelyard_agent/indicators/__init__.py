"""Indicators of the application's own: what is declared, read and made of it; `indicator_reader` reads."""
