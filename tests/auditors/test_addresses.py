"""What of an address is printed: where it leads, and nothing that opens it."""

import pytest

from auditors.addresses import mask_addresses, mask_url, without_credentials


@pytest.mark.parametrize(
    ("address", "masked"),
    [
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
        ("http://[::1]:80/v1?code=S", "http://[::1]:80/v1?code=***"),
        ("https://host/v1?api_key=S&api-version=3&sig=a=S", "https://host/v1?api_key=***&api-version=3&sig=***"),
        ("https://host/v1?key=S#x", "https://host/v1?key=***#x"),
        ("https://host/v1?S", "https://host/v1?***"),
        ("https://S@host/v1", "https://***@host/v1"),
        ("http://u:S/S@host/v1", "http://***@host/v1"),
        ("http://host/v1?mail=a@b.c&key=S", "http://host/v1?mail=***&key=***"),
        ("http://host:80/v1/a@b", "http://host:80/v1/a@b"),
        ("postgresql://user:S@host:5/db?sslmode=require", "postgresql://user:***@host:5/db?sslmode=require"),
        ("postgresql://user:S/S?S@host/db", "postgresql://user:***@host/db"),
        ("postgresql://user@host/db?sslpassword=S", "postgresql://user@host/db?sslpassword=***"),
        ("sqlite:////srv/biasgate.db", "sqlite:////srv/biasgate.db"),
        ("s3://S:S@bucket/x?secret=S", "s3://***@bucket/x?secret=***"),
        ("abfss://box@account.dfs.core.windows.net/x?sig=S", "abfss://box@account.dfs.core.windows.net/x?sig=***"),
        ("simplecache::s3://S:S@bucket/x", "simplecache::s3://***@bucket/x"),
        ("/srv/export?x=1", "/srv/export?x=1"),
    ],
)
def test_what_opens_an_address_is_masked(address: str, masked: str) -> None:
    """User, password and the values of a query go, in the address alone and in any text around it."""
    assert mask_url(address) == masked
    assert mask_addresses(f'cannot reach "{address}", as {address} is away') == (
        f'cannot reach "{masked}", as {masked} is away'
    )
    assert "S" not in without_credentials(address)
