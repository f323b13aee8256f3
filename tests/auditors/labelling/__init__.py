"""Tests of what people are asked and what their labels mean."""
