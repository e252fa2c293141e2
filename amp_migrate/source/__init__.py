"""Files on disk: which ones, their text, and their replacement; every byte outside an edit is kept."""
