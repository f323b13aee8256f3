"""Calibrations of judges are kept as they were written; the newest of a judge counts."""

from typing import Any

import msgspec
import pytest

from auditors.judge_validation import Validation
from auditors.metrics.intervals import KnownRates, KnownShare
from gateway.errors import GatewayError, NotFoundError, RequestError
from gateway.store import calibrations
from gateway.store.database import Database
from tests.support.store.made import audited, list_streams, measurement

pytestmark = pytest.mark.stores("sqlite")

RATES = KnownRates(
    n_positive=60,
    n_negative=60,
    sensitivity=KnownShare(value=0.9, effective_n=60),
    specificity=KnownShare(value=0.8, effective_n=60),
)


def content(**changes: Any) -> bytes:
    """A file of a good comparison of the judge behind `made.measurement`."""
    validation = Validation(
        judge_model="j",
        prompt_sha256="ab" * 32,
        thinking="off",
        n=120,
        agreement=0.9,
        kappa=0.7,
        kappa_lower=0.6,
        kappa_upper=0.8,
        labels_sha256="b" * 64,
        rates={"women": RATES},
    )
    return msgspec.json.encode(msgspec.structs.replace(validation, **changes))


async def test_it_is_kept_as_it_was_written(database: Database) -> None:
    """Its digest names it, the beginning of it is enough; the same file again changes nothing."""
    first = await calibrations.keep(database, content())
    again = await calibrations.keep(database, content())

    assert (again.digest, again.created_at) == (first.digest, first.created_at)
    assert (await calibrations.get(database, first.digest[:12])).validation == msgspec.json.decode(
        content(), type=Validation
    )


async def test_a_newer_one_supersedes_and_both_stay(database: Database) -> None:
    """Of one judge; another setting of thinking is another judge, with a newest one of its own."""
    old = await calibrations.keep(database, content())
    new = await calibrations.keep(database, content(n=200))
    other = await calibrations.keep(database, content(thinking="on"))
    listed = {one.digest: one.superseded_by for one in await calibrations.list_calibrations(database)}

    assert listed == {old.digest: new.digest, new.digest: None, other.digest: None}
    assert {one.digest for one in await calibrations.newest(database)} == {new.digest, other.digest}
    assert (await calibrations.get(database, old.digest)).validation.n == 120


async def test_what_is_none_is_refused(database: Database) -> None:
    """One line, and nothing is kept."""
    for file, message in (
        (b"{}", "judge calibrate --out wrote"),
        (b"\xff", "judge calibrate --out wrote"),
        (content(thinking=None), "does not say whether the judge thought"),
        (content(thinking="hard"), 'thinking "hard" is not known'),
        (content(judge_model=""), "it names no judge"),
        (content(judge_model="a\0b"), "it names no judge"),
        (content(prompt_sha256="ab"), "it names no judge"),
        (b" " * calibrations.LARGEST_BYTES + content(), "bytes at most"),
    ):
        with pytest.raises(RequestError, match=message):
            await calibrations.keep(database, file)
    assert await calibrations.list_calibrations(database) == []


async def test_a_digest_of_none_or_several(database: Database) -> None:
    """An unknown digest is told where they are listed; a beginning that two have is asked for more digits."""
    for digest in ("0" * 64, "xyz", "", "%", "a\0"):
        with pytest.raises(NotFoundError, match="GET /judges/calibrations"):
            await calibrations.get(database, digest)
    prints = [(await calibrations.keep(database, content(n=n))).digest for n in range(100, 118)]
    doubled = next(one[0] for one in prints if sum(other[0] == one[0] for other in prints) > 1)
    with pytest.raises(GatewayError, match="give more digits"):
        await calibrations.get(database, doubled)


@pytest.mark.parametrize(
    ("changes", "has_one"),
    [({}, True), ({"thinking": "on"}, False), ({"judge_model": "k"}, False), ({"prompt_sha256": "cd" * 32}, False)],
)
async def test_streams_of_the_same_judge_have_it(changes: dict[str, Any], has_one: bool, database: Database) -> None:
    """Model, question and thinking are those of the stream's instrument; nothing set is to be asked not to think."""
    await audited(database, measurement(1.0))
    [stream] = [one for one in await list_streams(database) if one.key.metric == "favoritism"]
    await calibrations.keep(database, content(**changes))
    found = await calibrations.streams_of(database, await calibrations.newest(database))

    assert list(found) == ([stream.id] if has_one else [])
