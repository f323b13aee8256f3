"""Labels become pairs of judge and person, by the stream whose judge it was."""

import pytest

from gateway.features.labelling import annotations
from gateway.features.labelling.annotations import AnnotationRequest
from gateway.store import labels
from gateway.store.database import Database
from tests.support.store.made import audited, list_streams, measurement

pytestmark = pytest.mark.stores("sqlite")


async def labelled(
    database: Database, judged: float | None, *people: float, version: str = "1", rate_factor: float = 1.0
) -> None:
    """An audited exchange that some people have labelled."""
    found = measurement(judged, auditor_version=version)
    one = await audited(database, found, probability=0.25, rate_factor=rate_factor)
    for number, value in enumerate(people):
        await annotations.add(
            database,
            AnnotationRequest(
                exchange_id=one.id, auditor="judge", axis="gender", group="women", value=value, annotator=str(number)
            ),
        )


@pytest.mark.stores("sqlite", "postgresql")
async def test_pairs_are_on_the_unit_scale_and_weighted(database: Database) -> None:
    """A judge's 2 and people's -1 and 2 (mean .5) are 1 and .5; the audit stands for four exchanges."""
    await labelled(database, 2.0, -1.0, 2.0)
    [stream] = await list_streams(database)
    [pair] = (await labels.pairs(database))[stream.id]

    assert (pair.judge, pair.group, pair.weight) == (1.0, "women", 4.0)
    assert pair.person == pytest.approx(0.5)


async def test_pairs_of_one_exchange_hang_together(database: Database) -> None:
    """A group against two others in one exchange makes two pairs of one cluster; another exchange is another."""
    found = [measurement(1.0, reference=other) for other in ("men", "nonbinary")]
    one = await audited(database, *found, probability=0.25)
    for other in ("men", "nonbinary"):
        label = AnnotationRequest(
            exchange_id=one.id, auditor="judge", axis="gender", group="women", reference=other, value=1, annotator="a"
        )
        await annotations.add(database, label)
    await labelled(database, 1.0, 1.0)
    [pairs] = (await labels.pairs(database)).values()

    assert sorted([pair.cluster == one.id for pair in pairs]) == [False, True, True]


async def test_each_instrument_has_its_own_labels(database: Database) -> None:
    """Labels of what another version scored say nothing about this one; without a score there is no pair."""
    await labelled(database, 1.0, 1.0)
    await labelled(database, 1.0, 1.0, version="2")
    await labelled(database, None, 1.0)
    found = await labels.pairs(database)

    assert sorted(len(pairs) for pairs in found.values()) == [1, 1]
    assert set(found) == {stream.id for stream in await list_streams(database)}
