"""Live requests are given their usual time before audits make way, and that is learned while no audit is in flight."""

from gateway.proxy.live_waits import Waiting, Waits
from gateway.proxy.patience import LEAST_KNOWN, LEAST_SECONDS, Patience


class Story:
    """Looks at an upstream every 50 ms."""

    def __init__(self) -> None:
        self.patience = Patience()
        self.now = 100.0
        self.streams = Waiting()
        self.replies = Waiting()

    def look(self, *, audits: int = 0, seconds: float = 0.05) -> int:
        self.now += seconds
        waits = Waits(self.streams, self.replies)
        self.patience.update(waits, audits=audits, now=self.now)
        return self.patience.overdue(waits, self.now)

    def answer(self, *seconds: float, audits: int = 0) -> None:
        """Streams whose first byte came after so long, one after the other."""
        for one in seconds:
            before = self.streams
            self.look(audits=audits, seconds=one)
            self.streams = Waiting(0, 0.0, before.answered + 1, before.seconds + one, before.squares + one * one)
            self.look(audits=audits)

    def wait(self, count: int = 1) -> None:
        """So many streams begin to wait now."""
        done = self.streams
        self.streams = Waiting(count, self.now, done.answered, done.seconds, done.squares)


def test_one_look_where_nothing_is_known() -> None:
    """A stream has waited for too long after 50 ms; all that wait are counted."""
    story = Story()
    story.wait(3)
    assert story.look(audits=1, seconds=LEAST_SECONDS - 0.01) == 0
    assert story.look(audits=1, seconds=0.01) == 3


def test_the_usual_wait_is_learned_without_audits() -> None:
    """Half a second, give or take: nobody is blamed for that, but for much more."""
    story = Story()
    story.answer(*[0.4, 0.6] * 10)
    story.wait()
    assert story.look(audits=1, seconds=0.6) == 0
    assert story.look(audits=1, seconds=0.2) == 1


def test_nothing_is_learned_beside_audits() -> None:
    """Long waits that began beside audits never become the usual ones."""
    story = Story()
    story.answer(*[2.0] * 20, audits=4)
    story.wait()
    assert story.look(audits=4, seconds=0.1) == 1


def test_what_waits_is_given_time_again_after_a_cut() -> None:
    """Its answer has still to be computed once the audits are gone."""
    story = Story()
    story.wait()
    assert story.look(audits=2, seconds=0.1) == 1
    story.patience.audits_were_cut(story.now)
    assert story.look(audits=1, seconds=LEAST_SECONDS / 2) == 0
    assert story.look(audits=1, seconds=LEAST_SECONDS) == 1


def test_of_replies_nothing_is_said_before_their_usual_time_is_known() -> None:
    """An answer in one piece may take as long as it likes, until others have shown what it takes without audits."""
    story = Story()
    story.replies = Waiting(1, story.now)
    assert story.look(audits=1, seconds=30.0) == 0
    n = int(LEAST_KNOWN)
    story.replies = Waiting()
    story.look(seconds=60.0)
    story.replies = Waiting(0, 0.0, n, 2.0 * n, 4.0 * n)
    story.look()
    story.replies = Waiting(1, story.now, n, 2.0 * n, 4.0 * n)
    assert story.look(audits=1, seconds=1.9) == 0
    assert story.look(audits=1, seconds=0.2) == 1
