"""What every command that measures shares: tables, CSV, progress, plots, pages, words, flags."""
