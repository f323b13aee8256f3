"""`biasgate simulate`: the simulated model server with planted biases."""

import argparse

import msgspec

from benchmarks.simulator import loading as profiles
from benchmarks.simulator.profile import Profile
from gateway.children.parent_pipe import end_with_parent
from gateway.errors import ConfigError

HELP = """\
Example: `biasgate simulate --port 8090 --profile default --seed 1`.

An OpenAI-compatible server whose biases are planted by a profile, so that every measurement has a known answer.
Point a gateway, an audit or any OpenAI client at it; every system_fingerprint says that the reply is simulated.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    profile_names = ", ".join(profiles.built_in())
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8090, help="port to listen on; 0 takes a free one (default: 8090)")
    parser.add_argument(
        "--profile", default="default", metavar="FILE|NAME", help=f"TOML file, or one of: {profile_names}"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of every draw (default: 0)")
    parser.add_argument("--with-parent", action="store_true", help=argparse.SUPPRESS)  # given by `biasgate demo`
    parser.add_argument(
        "--data-dir",
        metavar="DIR",
        help="dataset cache whose questions it knows the answers of (default: the usual cache, if it is there)",
    )


def run(arguments: argparse.Namespace) -> int:
    from benchmarks.simulator.server import serve_simulator

    if arguments.with_parent:
        end_with_parent()
    try:
        profile = profiles.load(arguments.profile)
        if arguments.data_dir is not None:
            profile = msgspec.structs.replace(profile, data_dir=arguments.data_dir)
        serve_simulator(
            profile,
            arguments.seed,
            arguments.host,
            arguments.port,
            on_ready=lambda url: _ready(url, profile, arguments.seed),
        )
    except (OSError, OverflowError) as exc:
        reason = getattr(exc, "strerror", None) or exc
        where = f"{arguments.host}:{arguments.port}"
        raise ConfigError(f"cannot listen on {where}: {reason}; choose another --port, or 0 for a free one") from exc
    return 0


def _ready(url: str, profile: Profile, seed: int) -> None:
    models = ", ".join(profile.models)
    print(f'biasgate simulator ready on {url}/v1 (profile "{profile.name}", seed {seed}, models {models})', flush=True)
