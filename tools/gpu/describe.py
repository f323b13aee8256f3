"""Print what this machine is: its GPUs, driver, torch, vLLM and Python."""

import importlib.metadata
import platform
import subprocess
import sys

DISTRIBUTIONS = ("torch", "transformers", "vllm", "sentence-transformers")


def main() -> int:
    print(f"Python {platform.python_version()}, {platform.machine()}, {platform.release()}")
    for name in DISTRIBUTIONS:
        try:
            print(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            print(f"{name} is not installed")
    query = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    try:
        print(subprocess.run(query, check=True, capture_output=True, text=True).stdout.strip())
    except (OSError, subprocess.CalledProcessError) as exc:
        print(f"no GPU: {exc}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
