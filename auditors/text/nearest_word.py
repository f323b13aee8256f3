"""The word that a mistyped one may stand for."""

from collections.abc import Iterable


def nearest(word: str, candidates: Iterable[str]) -> str:
    """Return ` (did you mean "x"?)` for the closest known word, an empty string when none is close."""
    import difflib  # a gateway starts without it

    match = difflib.get_close_matches(word, sorted(candidates), n=1, cutoff=0.5)
    return f' (did you mean "{match[0]}"?)' if match else ""
