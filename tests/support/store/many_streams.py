"""A store with thousands of live streams, as many models, axes and groups make them."""

import random

import msgspec
import sqlalchemy as sa

from auditors.streams import state as live
from auditors.streams.drift import DriftSettings
from auditors.streams.state import StreamKey, StreamState
from gateway.store.database import Database
from gateway.store.tables import streams as table
from gateway.streams import updates

SETTINGS = DriftSettings(reference_window=200)
AXES = ("gender", "religion", "race", "nationality", "age")
N_MODELS = 50
N_GROUPS = 20
KINDS = 25
"""Different states among the streams."""


async def fill(database: Database, *, alarmed: bool = False) -> int:
    """Store 5,000 embedding streams, a tenth still learning, the rest drifted if `alarmed`; return the count."""
    states = [msgspec.json.encode(_state(number, alarmed=alarmed)).decode() for number in range(KINDS)]
    keys = [
        StreamKey(
            auditor="embedding",
            metric="representative_distance",
            axis=axis,
            group=f"group_{group:02}",
            model=f"model-{model:02}",
            instrument="v1 minilm",
        )
        for model in range(N_MODELS)
        for axis in AXES
        for group in range(N_GROUPS)
    ]
    rows = [
        {
            "key": key.id,
            "auditor": key.auditor,
            "metric": key.metric,
            "axis": key.axis,
            "group_name": key.group,
            "model": key.model,
            "instrument": key.instrument,
            "state": states[number % KINDS],
            "updated_at": 1000.0 + number,
            "alarm_since": 1500.0 if alarmed and number % KINDS % 10 else None,
            "alarm_exchange_id": "exchange-1" if alarmed and number % KINDS % 10 else None,
        }
        for number, key in enumerate(keys)
    ]
    await database.change_rows(sa.insert(table), rows)
    while await updates.render(database, SETTINGS):
        pass
    return len(rows)


def _state(number: int, *, alarmed: bool) -> StreamState:
    rng, state = random.Random(number), StreamState()
    n = 120 if number % 10 == 0 else 300
    for at in range(n):
        high = alarmed and at >= 200
        y = 1.0 if high else 0.1 + 0.02 * rng.random()
        state = live.update(state, y, 0.05, SETTINGS, exchange_id=f"exchange-{at}", at=1000.0 + 600.0 * at)
    return state
