"""A greeting: a section, a command, a route and a metric family. An example of a feature in a wheel of its own."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from litestar import Controller, get
from prometheus_client.core import Metric

from gateway.auditor.part import AuditorPart, gauge, put
from gateway.config.loading import load
from gateway.config.schema import Config, Section
from gateway.config.sections import FeatureSection
from gateway.errors import ConfigError
from gateway.feature import Command, Feature


class GreetingConfig(Section, frozen=True):
    word: str = "hello"


SECTION = FeatureSection("greeting", GreetingConfig, GreetingConfig())
HELP = "Example:\n  biasgate greet world\n"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name")
    parser.add_argument("--config", type=Path)


def run(arguments: argparse.Namespace) -> int:
    print(f"{SECTION.of(load(arguments.config)).word} {arguments.name}")  # noqa: T201 - a command prints
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
    sections = (SECTION,)
    commands = {"greet": Command("biasgate_example.feature", "greet somebody")}
    controllers = ("biasgate_example.feature:GreetingController",)
    routes = {"GET /greeting": "VIEWER"}
    auditor_part = "biasgate_example.feature:GreetingPart"

    def check_sections(self, config: Config) -> None:
        if not SECTION.of(config).word.strip():
            raise ConfigError("greeting.word is empty: write a word")
