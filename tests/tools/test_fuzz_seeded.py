"""A short seeded part of `make fuzz` in every test run, and the inputs that once broke something."""

import itertools

import pytest

from tools.fuzz.mutation import mutants
from tools.fuzz.targets import TARGETS

INPUTS = {
    "requests": 400,
    "responses": 400,
    "bodies": 2000,
    "events": 1500,
    "configs": 400,
    "redaction": 250,
    "swaps": 250,
    "histories": 500,
    "rates": 60,
    "halves": 300,
    "control": 150,
}


@pytest.mark.parametrize("name", TARGETS)
def test_seeded_inputs(name: str) -> None:
    """The first mutants of each target's seeds break no invariant."""
    target = TARGETS[name]()
    for data in itertools.islice(mutants(target.seeds, target.tokens, 1), INPUTS[name]):
        target.check(data)
    target.close()
