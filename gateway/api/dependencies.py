"""Types of the objects that `create_app` injects into route handlers."""

from typing import TypeAlias

from litestar.di import NamedDependency
from litestar.params import SkipValidation

from gateway.api.access import Access
from gateway.config.schema import Config
from gateway.ingest import guardrail, intake
from gateway.jobs import JobQueue
from gateway.proxy.data_plane import DataPlane
from gateway.store.database import Database

Settings: TypeAlias = NamedDependency[Config]
Store: TypeAlias = NamedDependency[Database]
Queue: TypeAlias = NamedDependency[SkipValidation[JobQueue]]
Plane: TypeAlias = NamedDependency[DataPlane]
Intake: TypeAlias = NamedDependency[SkipValidation[intake.Intake]]
GuardrailCalls: TypeAlias = NamedDependency[SkipValidation[guardrail.GuardrailCalls]]
Entry: TypeAlias = NamedDependency[SkipValidation[Access]]
