"""`biasgate deploy write`: the files to run biasgate with, as this version has them."""

import argparse
from pathlib import Path

from gateway.features.deploy.writing import ENVIRONMENT, write

HELP = "Example: `biasgate deploy write biasgate-deployment`."

_WRITE_HELP = """\
A compose file with its Dockerfile, systemd units, a Helm chart, alert rules and dashboards, a TLS front and templates
for Argo Rollouts, as they are in the repository; deploy/.env with newly drawn keys (mode 600).

Example:
  biasgate deploy write biasgate-deployment
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="write")
    words, form = "write the deployment files into a directory", argparse.RawDescriptionHelpFormatter
    to_write = actions.add_parser("write", help=words, description=_WRITE_HELP, formatter_class=form)
    to_write.add_argument("directory", type=Path, metavar="DIR", help="created if it does not exist")
    to_write.add_argument("--force", action="store_true", help=f"overwrite existing files, except {ENVIRONMENT}")


def run(arguments: argparse.Namespace) -> int:
    directory: Path = arguments.directory
    written = write(directory, force=arguments.force)
    env = directory / ENVIRONMENT
    folders = sorted({"/".join(Path(name).parts[:2]) for name in written.files if name.startswith("deploy/")})
    lines = [f"{len(written.files)} files in {directory}: {', '.join(folders)}, grafana/, requirements*.lock", ""]
    if written.is_env_new:
        lines += [f"{env} has new keys and is yours alone (mode 600). Keep it out of version control."]
    else:
        lines += [f"{env} was there and is as it was."]
    if written.lacking:
        lines += [f"It lacks {', '.join(written.lacking)}: add them (`biasgate deploy write` elsewhere shows how)."]
    lines += [
        "",
        "Next, one of these:",
        f"  Compose     set MODEL in {env}, then",
        f"              docker compose -f {directory / 'deploy/docker-compose.yml'} up --build",
        f"  Kubernetes  helm install biasgate {directory / 'deploy/helm/biasgate'} -f values.yaml",
        f"  systemd     {directory / 'deploy/systemd'}: each unit says at its head how it is installed",
        f"  Grafana     import {directory / 'grafana'}/*.json",
        "docs/install.md of the repository says more.",
    ]
    print("\n".join(lines))
    return 0
