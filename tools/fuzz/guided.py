"""One target under atheris (libFuzzer): `python -m tools.fuzz.guided TARGET SECONDS CORPUS`. Ends with 0 or a crash.

atheris counts which branches of the gateway and the auditors an input reaches and keeps inputs that reach new ones.
"""

import sys
from pathlib import Path

import atheris

from tools.fuzz.mutation import MAX_BYTES


def main() -> None:
    """Runs until the time is up or an invariant breaks."""
    name, seconds, corpus = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    with atheris.instrument_imports(include=["gateway", "auditors", "uvicorn.protocols"]):
        from tools.fuzz.targets import TARGETS
    target = TARGETS[name]()
    for number, seed in enumerate(target.seeds):
        (corpus / f"seed-{number}").write_bytes(seed)
    words = corpus.with_suffix(".dict")
    words.write_text("".join(f'"{_escaped(token)}"\n' for token in target.tokens if len(token) <= 64))
    options = [
        f"-max_total_time={seconds}",
        f"-max_len={MAX_BYTES}",
        f"-dict={words}",
        "-timeout=60",
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], *options, f"-artifact_prefix={corpus}/crash-", str(corpus)], target.check)
    atheris.Fuzz()


def _escaped(token: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in token)


if __name__ == "__main__":
    main()
