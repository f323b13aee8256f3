"""What came of asking a share of a run's items again (see benchmarks.run.asked_again)."""

import msgspec


class ShareChanged(msgspec.Struct, frozen=True, kw_only=True):
    """Of the pairs of replies, with an interval by cluster."""

    n: int
    value: float
    """0..1."""
    lower: float | None
    upper: float | None


class HeadlineNoise(msgspec.Struct, frozen=True, kw_only=True):
    """What asking again does to the headline number of a run of this size, in its own unit."""

    metric: str
    standard_deviation: float | None
    lower: float | None = None
    upper: float | None = None
    """Of the standard deviation, 95 %."""
    difference: float | None = None
    """The headline numbers of two such runs differ by no more in 95 % of cases, where nothing else differs."""
    reason: str | None = None
    """Why something is missing."""


class Repeats(msgspec.Struct, frozen=True, kw_only=True):
    """What changed between the first reply to an item and its repeat."""

    share: float
    """Of the items, as asked for."""
    n_asked: int
    n_pairs: int
    """Items of which both replies arrived; all below is about these."""
    requests: int
    """That gave the repeats."""
    text: ShareChanged | None
    """Replies with another text; None in mode exact, where they have none, and without pairs."""
    answer: ShareChanged | None
    """Replies read as something else: another status, value or, in mode exact, probability."""
    headline: HeadlineNoise

    @property
    def words(self) -> str:
        """One line for the reader."""
        if self.answer is None:
            return f"asked again: no pair of replies among {self.n_asked} items"
        text = "" if self.text is None else f"{_percent(self.text)} came back in other words, "
        noise = self.headline.reason
        if self.headline.difference is not None:
            by_chance = f"{self.headline.difference:.3g} or less by chance alone (95 %)"
            noise = f"{self.headline.metric} of two such runs differs by {by_chance}"
        return f"asked again: of {self.n_pairs} replies {text}{_percent(self.answer)} with another answer; {noise}"


def _percent(share: ShareChanged) -> str:
    if share.lower is None or share.upper is None:
        return f"{100 * share.value:.1f} %"
    return f"{100 * share.value:.1f} % ({100 * share.lower:.1f} to {100 * share.upper:.1f})"
