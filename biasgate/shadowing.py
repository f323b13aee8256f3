"""Files before an installed module on `sys.path` with its name: by PYTHONPATH, where "" means ".", or `python -m`."""

import os
import sys

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
"""Directory of this code: an installation, or a checkout."""
OURS = frozenset({"auditors", "benchmarks", "biasgate", "gateway"})
MOST_NAMED = 4
"""Files that the line names; it says how many more there are."""


def complaint() -> str | None:
    """One line that names the files, what they hide and what to do; None when nothing is hidden. Only modules count
    that biasgate uses: its own, the standard library's, and those of distributions that it requires. A directory with
    installed distributions is an installation and hides nothing.
    """
    directories = _before_the_standard_library()
    path_by_name: dict[str, str] = {}
    other_paths: dict[str, str] = {}
    for directory in directories:
        for name, path in _modules_in(directory):
            if name in OURS:
                if directory != HERE:
                    path_by_name.setdefault(name, path)
            elif name in sys.stdlib_module_names and name != "test":
                path_by_name.setdefault(name, path)
            else:
                other_paths.setdefault(name, path)
    if not path_by_name and other_paths:  # what follows imports modules, and none of them is hidden
        path_by_name = _used_elsewhere(other_paths, directories)
    return _line(path_by_name) if path_by_name else None


def _before_the_standard_library() -> list[str]:
    """Absolute paths of what `sys.path` lists before it; what comes later hides nothing that is installed there."""
    library = os.path.dirname(os.path.abspath(os.__file__))
    listed = [os.path.abspath(entry) for entry in sys.path if isinstance(entry, str)]
    zipped = f"python{sys.version_info.major}{sys.version_info.minor}.zip"
    its_own = {library, os.path.join(os.path.dirname(library), zipped)}
    first = next((place for place, path in enumerate(listed) if path in its_own), 0)
    return list(dict.fromkeys(listed[:first]))


def _modules_in(directory: str) -> list[tuple[str, str]]:
    """Top-level modules and packages there, unless it is an installation. A folder without __init__.py hides none."""
    modules = []
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.name.endswith(".dist-info"):
                    return []
                name, _, rest = entry.name.partition(".")
                if rest == "py" or rest.endswith(("so", "pyd")):
                    modules.append((name, entry.path))
                elif not rest and os.path.isfile(os.path.join(entry.path, "__init__.py")):
                    modules.append((name, os.path.join(entry.path, "__init__.py")))
    except OSError:
        return []  # an entry that is not there, or no directory
    return sorted(modules)


def _used_elsewhere(candidates: dict[str, str], directories: list[str]) -> dict[str, str]:
    """Returns the candidates that another directory has too, and that a required distribution brings."""
    from importlib.machinery import PathFinder

    later = [entry for entry in sys.path if os.path.abspath(entry) not in directories]
    hiding = {name: path for name, path in candidates.items() if PathFinder.find_spec(name, later) is not None}
    if not hiding:
        return {}
    required = _required_modules()
    return {name: path for name, path in hiding.items() if name in required}


def _required_modules() -> set[str]:
    """Top-level modules of all that biasgate requires, and of what that requires, as far as it is installed."""
    import re
    from importlib.metadata import packages_distributions, requires

    def normal(name: str) -> str:
        return re.sub(r"[-_.]+", "-", name).lower()

    waiting, seen = ["biasgate"], set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        try:
            requirements = requires(name) or []
        except ModuleNotFoundError:  # an extra that nobody installed
            continue
        waiting += [normal(match[0]) for requirement in requirements if (match := re.match(r"[\w.-]+", requirement))]
    return {module for module, owners in packages_distributions().items() if {normal(owner) for owner in owners} & seen}


def _line(path_by_name: dict[str, str]) -> str:
    files = [f"{path} (for {name})" for name, path in sorted(path_by_name.items())]
    named = ", ".join(files[:MOST_NAMED]) + (f" and {len(files) - MOST_NAMED} more" if len(files) > MOST_NAMED else "")
    from_variable = any(_is_on_pythonpath(path) for path in path_by_name.values())
    remedy = (
        "take their directory off PYTHONPATH, where an empty entry means the working directory"
        if from_variable
        else "start the command `biasgate` in place of `python -m biasgate`"
    )
    return f"files would be imported in place of what is installed: {named}; rename them, or {remedy}"


def _is_on_pythonpath(path: str) -> bool:
    variable = os.environ.get("PYTHONPATH")
    entries = {os.path.abspath(entry) for entry in variable.split(os.pathsep)} if variable else set()
    directory = os.path.dirname(path)
    return directory in entries or os.path.dirname(directory) in entries
