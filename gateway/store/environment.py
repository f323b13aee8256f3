"""Environment variables that the database's driver reads."""

_LIBPQ = frozenset(
    f"PG{name}"
    for name in (
        *("HOST", "HOSTADDR", "PORT", "DATABASE", "USER", "PASSWORD", "PASSFILE", "SERVICE", "SERVICEFILE", "OPTIONS"),
        *("APPNAME", "CHANNELBINDING", "REQUIREAUTH", "REQUIREPEER", "CONNECT_TIMEOUT", "CLIENTENCODING", "TZ"),
        *("SSLMODE", "REQUIRESSL", "SSLCOMPRESSION", "SSLCERT", "SSLKEY", "SSLCERTMODE", "SSLROOTCERT", "SSLCRL"),
        *("SSLCRLDIR", "SSLSNI", "SSLNEGOTIATION", "SSLMINPROTOCOLVERSION", "SSLMAXPROTOCOLVERSION", "GSSENCMODE"),
        *("KRBSRVNAME", "GSSLIB", "GSSDELEGATION", "MINPROTOCOLVERSION", "MAXPROTOCOLVERSION", "TARGETSESSIONATTRS"),
        *("LOADBALANCEHOSTS", "DATESTYLE", "GEQO", "SYSCONFDIR", "LOCALEDIR"),
    )
)
"""PostgreSQL's client library, by name: variables of its other programs begin with PG too."""
_POSTGRESQL = _LIBPQ | {"PSYCOPG_*", "KRB5CCNAME", "KRB5_CONFIG", "KRB5_KTNAME", "KRB5_CLIENT_KTNAME"}


def variables(url: str) -> frozenset[str]:
    """Return the names that the driver of this store reads; a name that ends in "*" stands for all that begin so."""
    return frozenset() if url.startswith("sqlite:") else _POSTGRESQL
