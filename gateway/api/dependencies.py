"""Types of the objects that `create_app` injects into route handlers."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from litestar import Request
from litestar.datastructures import State
from litestar.di import NamedDependency
from litestar.params import SkipValidation

from gateway.api.access import Access
from gateway.config.schema import Config
from gateway.control_keys import Holder
from gateway.feature import Feature
from gateway.jobs import JobQueue
from gateway.proxy.data_plane import DataPlane
from gateway.store.database import Database

Asked: TypeAlias = Request[Holder, Any, State]
"""A request that the guard let in: its user is the holder of the key or link that was sent."""
Settings: TypeAlias = NamedDependency[SkipValidation[Config]]
Store: TypeAlias = NamedDependency[Database]
Queue: TypeAlias = NamedDependency[SkipValidation[JobQueue]]
Plane: TypeAlias = NamedDependency[DataPlane]
Features: TypeAlias = NamedDependency[SkipValidation[Mapping[str, Feature]]]
Entry: TypeAlias = NamedDependency[SkipValidation[Access]]
