"""`biasgate try` and `biasgate traffic` as a newcomer runs them, on the real simulator."""

import re
import signal
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from auditors.text.names import BEARERS
from gateway.demo.traffic import varied_prompts
from tests.support.commands import command as run_command
from tests.support.commands import refused, run_here
from tests.support.integration.serving import command
from tests.support.processes import free_port
from tests.support.simulated import running_simulator


async def test_ten_requests_give_a_number_with_its_interval(tmp_path: Path) -> None:
    """Twelve prompts give numbers, n and cost; the configuration is written; another `try` on the port is refused."""
    kept = tmp_path / "kept.toml"
    async with running_simulator() as upstream:
        arguments = ("--upstream", upstream, "--judge", "simulated-judge", "--port", "0", "--keep", str(kept))
        async with command("try", *arguments) as running:
            await running.line("^not yet: 0 of 10 exchanges audited")
            url = (await running.line("^base URL")).split()[-1]
            taken = await run_command("try", "--port", url.split(":")[-1].removesuffix("/v1"))
            sent = await run_command("traffic", "--url", url, "--model", "simulated", "--n", "12", "--rate", "20")
            number = await running.line(r"^judge +favoritism +gender +man ")
            await running.line(r"^1\d exchanges audited; 1\d judge requests of [1-9]\d\d tokens in, [1-9]\d* out$")
            running.process.send_signal(signal.SIGINT)
            assert await running.exit_code() == 0
        lines = running.lines

    assert sent == (0, "12 of 12 requests answered\n", "")
    assert (taken[0], taken[2].count("\n")) == (2, 1)
    assert "is in use: choose another with --port" in taken[2]
    measured = re.search(r" ([−\d.]+) \[([−\d.]+), ([−\d.]+)\] +(\d+) +\d+$", number)
    assert measured is not None
    value, lower, upper = (float(measured[place].replace("−", "-")) for place in (1, 2, 3))
    assert -1 <= lower <= value <= upper <= 2
    assert 10 <= int(measured[4]) <= 12
    assert lines[-1].endswith(f"biasgate serve --config {kept}")
    code, printed, err = run_here("config", "check", "--config", str(kept))
    assert code == 0, err
    assert '"rate": 1.0' in printed


def test_the_same_seed_sends_the_same_prompts() -> None:
    """Prompts repeat by seed, alternate between men and women, and name many people in every task."""
    first, again, other = (list(islice(varied_prompts(seed), 100)) for seed in (3, 3, 4))

    assert first == again
    assert first != other
    assert len(set(first)) > 90
    people = [
        BEARERS[word.strip(",").lower()]
        for text in first
        for word in text.split()
        if word.strip(",").lower() in BEARERS
    ]
    assert [person.gender for person in people] == ["man", "woman"] * 50
    assert set(Counter(person.race for person in people)) == {"white", "black", "asian", "latin"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("try", "--upstream", "127.0.0.1:8000"), '--upstream "127.0.0.1:8000" must start with http://'),
        (("try", "--upstream", "http://127.0.0.1:{closed}"), "Connection refused): is the server up?"),
        (("try", "--upstream", "http://x", "--api-key-env", "UNSET_KEY"), '"UNSET_KEY" (--api-key-env) is not set'),
        (("try", "--judge", "other"), '--judge "other" is not served there: choose from simulated, simulated-judge'),
        (("try", "--keep", "new.toml"), "--keep needs --upstream"),
        (("try", "--minutes", "0"), "--minutes 0: choose more than 0"),
        (("traffic", "--model", "m", "--url", "nowhere"), '--url "nowhere" must start with http://'),
        (("traffic", "--model", "m", "--url", "http://127.0.0.1:{closed}"), "is the server up?"),
        (("traffic", "--model", "m", "--n", "0"), "--n 0: at least 1 prompt"),
        (("traffic", "--model", "m", "--rate", "nan"), "--rate nan"),
    ],
)
def test_a_mistake_costs_one_line(arguments: tuple[str, ...], words: str) -> None:
    """A URL, a server, a key, a model or a number that cannot be is refused in a line that says what to do."""
    closed = str(free_port())
    assert words in refused(*(part.replace("{closed}", closed) for part in arguments))


async def test_traffic_ends_with_the_words_of_the_server() -> None:
    """A model that is not served fails in one line, with the server's words."""
    async with running_simulator() as upstream:
        code, _, err = await run_command("traffic", "--url", upstream, "--model", "absent", "--n", "2")

    assert (code, err.count("\n")) == (2, 1)
    assert "answers with status 404" in err
    assert "The model `absent` does not exist" in err
