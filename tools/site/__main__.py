"""Builds the manual as a site: `make docs`. Each version has its folder; the newest is the site's first page.

Usage: python -m tools.site [--version 0.2] [--out site]
"""

import argparse
import json
import logging
import tomllib
from pathlib import Path

from mkdocs.commands.build import build
from mkdocs.config import load_config

from tools.site.hooks import ROOT, redirect

HERE = Path(__file__).parent


def read_version() -> str:
    """Return the first two numbers of the version in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return ".".join(str(project["version"]).split(".")[:2])


def build_site(out: Path, version: str) -> None:
    """Build a version into its folder and list it first. Raises mkdocs' Abort at a warning."""
    build(load_config(str(HERE / "mkdocs.yml"), strict=True, site_dir=str(out / version)))
    listing = out / "versions.json"
    listed = json.loads(listing.read_text(encoding="utf-8")) if listing.exists() else []
    versions = {entry["version"] for entry in listed if (out / entry["version"]).is_dir()} | {version}
    newest = sorted(versions, key=lambda name: [int(part) for part in name.split(".") if part.isdigit()], reverse=True)
    entries = [{"version": name, "title": name, "aliases": ["latest"] * (name == newest[0])} for name in newest]
    listing.write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")
    (out / "index.html").write_text(redirect(f"{newest[0]}/"), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", default=read_version(), help="the version's folder (default: of pyproject.toml)")
    parser.add_argument("--out", type=Path, default=ROOT / "site", help="where all versions lie (default: site)")
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    build_site(options.out, options.version)


if __name__ == "__main__":
    main()
