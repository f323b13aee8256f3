"""Which questions suites ask that live traffic asks too."""
