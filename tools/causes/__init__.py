"""Plants causes of a drift and counts how often the split finds them; see `tools.causes.__main__`."""
