"""Tests of a panel of judges."""
