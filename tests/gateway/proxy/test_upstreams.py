"""Which upstream gets a request, and what is known about each."""

import pytest

from gateway.config.loading import validate
from gateway.config.schema import Config
from gateway.errors import ConfigError
from gateway.proxy.upstreams import Upstreams


def config(**models: list[str]) -> Config:
    return validate(
        {
            "upstreams": [
                {"name": name, "base_url": f"http://{name}:1/v1/", "models": served} for name, served in models.items()
            ]
        }
    )


class TestChoice:
    def test_down_and_tried_ones_are_left_out(self) -> None:
        """An upstream that is down, or was tried, gets nothing; another that cannot know the model gets none of it."""
        upstreams = Upstreams(config(a=["m"], b=["m"], c=["*"]))
        a, b, c = upstreams.all
        a.mark_down("refused")

        assert upstreams.choose("m") is b
        assert upstreams.choose("m", exclude=[b]) is None
        assert upstreams.choose("never heard of") is c, "its own refusal is the answer"

    def test_no_model_goes_to_the_first_that_is_up(self) -> None:
        """Requests without a model always meet the same upstream, which may keep state for them."""
        upstreams = Upstreams(config(a=["m"], b=["m"]))
        upstreams.all[0].outstanding = 9

        assert upstreams.choose(None) is upstreams.all[0]


class TestKnowledge:
    @pytest.mark.parametrize("url", ["http://", "http://h:port", "http://[::1"])
    def test_bad_addresses(self, url: str) -> None:
        """An address that is none is named."""
        with pytest.raises(ConfigError, match="base_url"):
            Upstreams(validate({"upstreams": [{"name": "a", "base_url": url}]}))
