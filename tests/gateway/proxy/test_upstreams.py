"""Which upstream gets a request, and what is known about each."""

import pytest

from gateway.config.loading import validate
from gateway.config.schema import Config
from gateway.errors import ConfigError
from gateway.proxy.models import merged_models
from gateway.proxy.upstreams import Upstreams


def config(**models: list[str]) -> Config:
    return validate(
        {
            "upstreams": [
                {"name": name, "base_url": f"http://{name}:1/v1/", "models": served} for name, served in models.items()
            ]
        }
    )


def entry(name: str) -> dict[str, object]:
    return {"id": name, "object": "model", "created": 7, "owned_by": "vllm", "root": name}


class TestChoice:
    def test_least_outstanding(self) -> None:
        """The upstream with the fewest requests per weight is chosen, and equals take turns."""
        upstreams = Upstreams(config(a=["m"], b=["m"], c=["other"]))
        a, b, _ = upstreams.all

        assert {upstreams.choose("m"), upstreams.choose("m")} == {a, b}
        a.outstanding = 2
        assert [upstreams.choose("m") for _ in range(3)] == [b, b, b]

    def test_weight(self) -> None:
        """Twice the weight carries twice the load."""
        upstreams = Upstreams(
            validate(
                {
                    "upstreams": [
                        {"name": n, "base_url": "http://h", "models": ["m"], "weight": w}
                        for n, w in (("a", 1), ("b", 2))
                    ]
                }
            )
        )
        for _ in range(30):
            chosen = upstreams.choose("m")
            assert chosen is not None
            chosen.outstanding += 1

        assert [upstream.outstanding for upstream in upstreams.all] == [10, 20]

    def test_down_and_tried_ones_are_left_out(self) -> None:
        """An upstream that is down, or was tried, gets nothing."""
        upstreams = Upstreams(config(a=["m"], b=["m"]))
        a, b = upstreams.all
        a.mark_down("refused")

        assert upstreams.choose("m") is b
        assert upstreams.choose("m", exclude=[b]) is None

    def test_a_model_whose_upstreams_are_down(self) -> None:
        """It is not sent to an upstream that cannot know it."""
        upstreams = Upstreams(config(a=["m"], b=["*"]))
        upstreams.all[0].mark_down("refused")

        assert upstreams.choose("m") is None

    def test_an_unknown_model_goes_to_a_wildcard(self) -> None:
        """So that the upstream's own refusal is the answer."""
        upstreams = Upstreams(config(a=["m"], b=["*"]))

        assert upstreams.choose("never heard of") is upstreams.all[1]

    def test_no_model_goes_to_the_first_that_is_up(self) -> None:
        """Requests without a model always meet the same upstream, which may keep state for them."""
        upstreams = Upstreams(config(a=["m"], b=["m"]))
        upstreams.all[0].outstanding = 9

        assert upstreams.choose(None) is upstreams.all[0]

    def test_no_upstream(self) -> None:
        """None configured, none chosen."""
        assert Upstreams(Config()).choose("m") is None


class TestKnowledge:
    def test_learned_models(self) -> None:
        """Only a "*" adds what the upstream says to what is configured."""
        upstreams = Upstreams(config(a=["*"], b=["only"]))
        for upstream in upstreams.all:
            upstream.set_served_models([entry("x")], "f")

        assert [upstream.models for upstream in upstreams.all] == [{"x"}, {"only"}]

    def test_merged_models(self) -> None:
        """Each model once, entries as their upstream gives them, then configured names and aliases."""
        upstreams = Upstreams(config(a=["*"], b=["only"]))
        for upstream in upstreams.all:
            upstream.set_served_models([entry("x")], "f")

        assert merged_models(upstreams.all, {"gpt": "x"}) == (
            b'{"object":"list","data":['
            b'{"id":"x","object":"model","created":7,"owned_by":"vllm","root":"x"},'
            b'{"id":"only","object":"model","created":0,"owned_by":"biasgate","root":"only"},'
            b'{"id":"gpt","object":"model","created":7,"owned_by":"biasgate","root":"x"}]}'
        )

    @pytest.mark.parametrize("url", ["http://", "http://h:port", "http://[::1"])
    def test_bad_addresses(self, url: str) -> None:
        """An address that is none is named."""
        with pytest.raises(ConfigError, match="base_url"):
            Upstreams(validate({"upstreams": [{"name": "a", "base_url": url}]}))
