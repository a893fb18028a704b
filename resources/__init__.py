"""Data of the program: models, help pages, icons."""
