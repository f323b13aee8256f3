"""What `create_app` provides to handlers, by parameter name and type."""

from typing import TypeAlias

from litestar.di import NamedDependency
from litestar.params import SkipValidation

from gateway.config import Config
from gateway.jobs import JobQueue
from gateway.proxy.dataplane import DataPlane
from gateway.store.database import Database

Settings: TypeAlias = NamedDependency[Config]
Store: TypeAlias = NamedDependency[Database]
Queue: TypeAlias = NamedDependency[SkipValidation[JobQueue]]
Plane: TypeAlias = NamedDependency[DataPlane]
