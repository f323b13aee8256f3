"""A greeting: a command, a route, a metric family and a job. An example of a feature in a wheel of its own."""

import argparse
from collections.abc import Mapping, Sequence

from litestar import Controller, get
from prometheus_client.core import Metric

from gateway.auditor.part import AuditorContext, AuditorPart, gauge, put
from gateway.feature import Command, Feature

HELP = "Example:\n  biasgate greet world\n"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name")


def run(arguments: argparse.Namespace) -> int:
    print(f"hello {arguments.name}")  # noqa: T201 - a command prints
    return 0


class GreetingController(Controller):
    path = "/greeting"

    @get("/", sync_to_thread=False)
    def greet(self) -> dict[str, str]:
        return {"greeting": "hello"}


class GreetingPart(AuditorPart):
    async def families(self) -> Sequence[Metric]:
        greetings = gauge("greetings", "Greetings of the example.", ())
        put(greetings, (), 1.0)
        return [greetings]


class Greeting(Feature):
    name = "greeting"

    def commands(self) -> Mapping[str, Command]:
        return {"greet": Command("biasgate_example.feature", "greet somebody")}

    def controllers(self) -> Sequence[type[Controller]]:
        return [GreetingController]

    def routes(self) -> Mapping[str, str]:
        return {"GET /greeting": "VIEWER"}

    def auditor_part(self, context: AuditorContext) -> AuditorPart:
        return GreetingPart()
