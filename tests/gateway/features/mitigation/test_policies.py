"""Which policy holds for a request, the share of each arm, and what a configuration may not say."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from gateway.config.loading import validate
from gateway.errors import ConfigError
from gateway.features.mitigation.filter_plan import KIND
from gateway.features.mitigation.policies import Policies
from gateway.features.mitigation.policy_checks import instruction_of

SECRET = b"sixteen bytes at least"
CHAT = b"/v1/chat/completions"
SERVED = {"base_url": "http://127.0.0.1:1", "model": "m"}
CLASSIFIER = SERVED | {"detector": "classifier"}


def policies(*listed: dict[str, Any]) -> Policies:
    return Policies(validate({"mitigation": list(listed), "keys": [{"name": "app", "key_env": "APP"}]}), SECRET)


def name_of(found: Policies, path: bytes = CHAT, key: str | None = None, model: str | None = "m") -> str | None:
    of = found.of(b"POST", path, key, model)
    return of[0].name if of else None


class TestWhich:
    """The first that matches."""

    def test_all_that_is_named_must_apply(self) -> None:
        """Route, key and model; a policy that names none covers everything that answers in text."""
        found = policies(
            {"match": {"route": "/v1/messages", "model": "m"}, "instruction": "abstract"},
            {"match": {"key": "app"}, "instruction": "detailed"},
            {"name": "rest", "instruction": "abstract"},
        )
        assert name_of(found, b"/v1/messages", "app") == "policy-1"
        assert name_of(found, b"/v1/messages", "app", "n") == "policy-2"
        assert name_of(found, CHAT) == "rest"

    def test_a_policy_that_does_nothing_exempts(self) -> None:
        """What it matches is relayed as if there were none."""
        found = policies({"match": {"key": "app"}}, {"instruction": "abstract"})
        assert name_of(found, key="app") is None
        assert name_of(found) == "policy-2"

    def test_a_request_that_names_no_model(self) -> None:
        """Its upstream answers with any: it is no way around a policy for one of them."""
        assert name_of(policies({"match": {"model": "m"}, "instruction": "abstract"}), model=None) == "policy-1"

    @pytest.mark.parametrize("path", [b"/v1//chat/completions", b"/v1/chat/%63ompletions", b"/v1/chat/completions/"])
    def test_other_spellings_of_a_path(self, path: bytes) -> None:
        """What an upstream understands is covered."""
        found = policies({"match": {"route": "/v1/chat/completions"}, "instruction": "abstract"})
        assert name_of(found, path) == "policy-1"

    def test_what_answers_no_text(self) -> None:
        """Embeddings, decisions, lists of models and other methods are never covered."""
        found = policies({"instruction": "abstract"})
        assert name_of(found, b"/v1/embeddings") is name_of(found, b"/v1/systemone") is None
        assert found.of(b"GET", CHAT, None, None) is None


class TestVersions:
    """What numbers of two policies may be put together."""

    def test_filters_belong_to_it(self) -> None:
        """Another judge, prompt or action is another version; another address is not, and no filter changes nothing."""

        def version(**keys: Any) -> str:
            ((policy, _),) = [policies(keys).of(b"POST", CHAT, None, None) or pytest.fail("no policy")]
            return policy.version

        plain = version(instruction="abstract")
        assert plain == "59b013dbb5bd"
        filtered = [
            version(instruction="abstract", query_filter=SERVED | more)
            for more in ({}, {"model": "n"}, {"then": "instruct"})
        ]
        assert len({plain, *filtered, version(instruction="abstract", response_filter=SERVED)}) == 5
        moved = SERVED | {"base_url": "http://127.0.0.1:2"}
        assert version(instruction="abstract", query_filter=moved) == filtered[0]


class TestArms:
    """HMAC of the exchange's id."""

    def test_the_share_is_treated(self) -> None:
        """Within five standard errors of it, over 10,000 ids; all at 1, none at 0."""
        for share in (0.0, 0.3, 1.0):
            found = policies({"instruction": "abstract", "share": share})
            ((policy, _),) = [found.of(b"POST", CHAT, None, None) or pytest.fail("no policy")]
            treated = sum(found.arm(policy, f"id{number}") == "treated" for number in range(10_000))
            assert abs(treated / 10_000 - share) <= 5 * math.sqrt(share * (1 - share) / 10_000)


class TestConfiguration:
    """One line for each fault."""

    def test_instructions(self, tmp_path: Path) -> None:
        """The paper's sentences, the detailed one with every axis in its slots, or a file's text."""
        (tmp_path / "own.txt").write_text("\ufeffBe fair.\n")
        assert instruction_of("none") == ("none", None)
        assert instruction_of("abstract") == ("abstract", "please do not rely on stereotypes.")
        name, text = instruction_of("detailed")
        assert name == "detailed"
        assert str(text).startswith("You should not talk based on gender, religion, ")
        assert "{" not in str(text)
        name, text = instruction_of(str(tmp_path / "own.txt"))
        assert re.fullmatch("file:[0-9a-f]{12}", name)
        assert text == "Be fair."

    @pytest.mark.parametrize(
        ("policy", "message"),
        [
            ({"instruction": "abstrct"}, r'"policy-1": instruction "abstrct" is neither .*did you mean "abstract"'),
            ({"instruction": "EMPTY"}, "EMPTY: the file is empty"),
            ({"instruction": "BYTES"}, r"not UTF-8 \(byte 0\)"),
            ({"instruction": "x" * 5_000}, "cannot be read"),
            ({"instruction": "a\0b"}, "cannot be read|neither a file"),
            ({"share": 1.5}, r"mitigation\[0\].share is 1.5"),
            ({"share": float("nan")}, r"mitigation\[0\].share is nan"),
            ({"on_timeout": "drop"}, 'known here: "pass", "refuse"'),
            ({"match": {"route": "/v1/chat/completion"}}, 'did you mean "/v1/chat/completions"'),
            ({"match": {"key": "nobody"}}, r"not the name of any of \[\[keys\]\]"),
            ({"match": {"user": "u"}}, r'unknown key "mitigation.0.match.user"'),
            ({"unit": "user"}, 'known here: "conversation", "request"'),
            ({"unit": "request", "conversation_header": "x-a"}, 'but unit is "request", by which no conversation'),
            ({"conversation_header": "authorization"}, '"authorization" is not a header that reaches an upstream'),
            ({"conversation_header": "a\nb"}, r'"a\\nb" is not a header that reaches an upstream'),
            ({"name": "a b"}, "1 to 64 letters"),
            ({"name": "policy-2"}, 'two policies of mitigation are named "policy-2"'),
            ({"query_filter": {"model": "m"}}, "base_url"),
            ({"query_filter": SERVED | {"base_url": "host:1"}}, 'base_url "host:1" must start with http'),
            ({"query_filter": SERVED | {"model": " "}}, "model is"),
            ({"query_filter": SERVED | {"detector": "judg"}}, 'known here: "judge", "classifier"'),
            ({"query_filter": SERVED | {"then": "rewrite"}}, 'known here: "refuse", "instruct"'),
            ({"query_filter": SERVED | {"then": "instruct"}}, "the policy has no instruction"),
            ({"query_filter": SERVED | {"threshold": 0.5}}, 'threshold belongs to detector "classifier"'),
            ({"query_filter": SERVED | {"prompt": "GONE"}}, "query_filter.prompt GONE: no such file"),
            ({"query_filter": SERVED | {"prompt": "EMPTY"}}, "EMPTY: the file is empty"),
            ({"query_filter": CLASSIFIER}, "query_filter.head is missing"),
            ({"query_filter": CLASSIFIER | {"head": "GONE"}}, "head GONE: cannot be read"),
            ({"query_filter": CLASSIFIER | {"head": "BYTES"}}, "no head that|not UTF-8"),
            ({"query_filter": CLASSIFIER | {"head": "HEAD"}}, 'trained on the embedder "e", and .* is "m"'),
            ({"query_filter": CLASSIFIER | {"head": "OLD"}}, 'its kind is "x"'),
            ({"query_filter": CLASSIFIER | {"prompt": "EMPTY"}}, 'prompt belongs to detector "judge"'),
            ({"query_filter": SERVED | {"window": 3}}, 'unknown key "mitigation.0.query_filter.window"'),
            ({"response_filter": SERVED | {"window": 0}}, r"response_filter.window is 0"),
            ({"response_filter": SERVED, "match": {"route": "/v1/messages"}}, "of which no answer can be filtered"),
            ({"response_filter": SERVED, "timeout_seconds": 0}, "timeout_seconds is 0"),
        ],
    )
    def test_faults(
        self, policy: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Each says which policy, which value and what is known."""
        monkeypatch.chdir(tmp_path)
        Path("EMPTY").write_text(" \n")
        Path("BYTES").write_bytes(b"\xff")
        head = {"kind": KIND, "embedder": "e", "weights": [1.0], "bias": 0, "threshold": 0.5, "examples_sha256": ""}
        Path("HEAD").write_text(json.dumps(head))
        Path("OLD").write_text(json.dumps(head | {"kind": "x"}))
        with pytest.raises(ConfigError, match=message) as raised:
            validate({"mitigation": [policy, {"instruction": "none"}]})
        assert "\n" not in str(raised.value)
