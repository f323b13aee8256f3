"""Numbers that papers print, transcribed, and their reader (see tables)."""
