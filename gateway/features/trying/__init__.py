"""Gives a newcomer a first number: `biasgate try` and `biasgate traffic` (docs/tutorials/first-number.md)."""
