"""Sampling decisions: reproducible, nested, uniform, independent by purpose, exact at both ends."""

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.sampling.decision import HmacSampler, fraction, is_probe, is_sampled, probe_mark

SECRET = b"0123456789abcdef"
RATES = st.floats(0, 1, allow_nan=False)


def test_fraction_is_the_leading_bits_of_the_hmac() -> None:
    """The number can be recomputed from the definition: 53 leading bits over 2**53."""
    digest = hmac.new(SECRET, b"request-1", hashlib.sha256).digest()
    assert fraction(SECRET, "request-1") == (int.from_bytes(digest[:8], "big") // 2**11) / 2**53


@given(request_id=st.text(), secret=st.binary(min_size=1))
def test_fraction_lies_in_the_half_open_unit_interval(request_id: str, secret: bytes) -> None:
    """Any id, lone surrogates included, gives a number in [0, 1), the same each time."""
    drawn = fraction(secret, request_id)
    assert 0 <= drawn < 1
    assert drawn == fraction(secret, request_id)


@given(request_id=st.text(), low=RATES, high=RATES)
def test_rates_nest(request_id: str, low: float, high: float) -> None:
    """What is sampled at a rate is sampled at every larger rate."""
    low, high = min(low, high), max(low, high)
    assert is_sampled(SECRET, request_id, high) or not is_sampled(SECRET, request_id, low)


@given(request_id=st.text())
def test_ends_are_exact(request_id: str) -> None:
    """Rate 0 samples nothing and rate 1 everything."""
    assert not is_sampled(SECRET, request_id, 0.0)
    assert is_sampled(SECRET, request_id, 1.0)


@pytest.mark.parametrize("rate", [0.01, 0.3, 0.9])
def test_share_is_the_rate(rate: float) -> None:
    """Of 20,000 ids the sampled share is within 5 standard errors of the rate (fails by chance 6 times in 10^7)."""
    n = 20_000
    share = sum(is_sampled(SECRET, f"id-{number}", rate) for number in range(n)) / n
    assert abs(share - rate) < 5 * (rate * (1 - rate) / n) ** 0.5


def test_purposes_are_independent() -> None:
    """Two purposes agree on the same ids about as often as chance: 0.25 of them at rate 0.5 (5 standard errors)."""
    n = 20_000
    both = sum(
        is_sampled(SECRET, f"id-{number}", 0.5, purpose="judge")
        and is_sampled(SECRET, f"id-{number}", 0.5, purpose="embedding")
        for number in range(n)
    )
    assert abs(both / n - 0.25) < 5 * (0.25 * 0.75 / n) ** 0.5


@given(st.text(), st.binary(max_size=200))
def test_a_lottery_draws_the_same(request_id: str, secret: bytes) -> None:
    """What is hashed ahead changes nothing, for secrets shorter and longer than a block."""
    assert HmacSampler(secret).draw(request_id) == fraction(secret, request_id)


@given(request_id=st.text(), body=st.binary(max_size=50), secret=st.binary(min_size=1))
def test_a_mark_fits_its_own_request_only(request_id: str, body: bytes, secret: bytes) -> None:
    """Another id, another body or another secret asks for another mark."""
    mark = probe_mark(secret, request_id, body)
    assert is_probe(secret, request_id, mark, body)
    assert not is_probe(secret, request_id + "x", mark, body)
    assert not is_probe(secret, request_id, mark, body + b"x")
    assert not is_probe(secret + b"x", request_id, mark, body)


@given(st.text())
def test_what_clients_write_is_no_mark(written: str) -> None:
    """Whatever stands in the header, nothing is raised and nothing but the mark is taken for it."""
    assert not is_probe(SECRET, "id", written, b"{}")
