"""Every target by name. Each is made where it is used: two of them run a gateway, one the control plane."""

from collections.abc import Callable

from tests.fuzz.bodies import Bodies
from tests.fuzz.configs import Configs
from tests.fuzz.control import Control
from tests.fuzz.events import Events
from tests.fuzz.halves import Halves
from tests.fuzz.histories import Histories
from tests.fuzz.rates import StatedRates
from tests.fuzz.redaction import Redaction
from tests.fuzz.swaps import Swaps
from tests.fuzz.target import Target
from tests.fuzz.wire import Requests, Responses

TARGETS: dict[str, Callable[[], Target]] = {
    "requests": Requests,
    "responses": Responses,
    "bodies": Bodies,
    "events": Events,
    "configs": Configs,
    "redaction": Redaction,
    "swaps": Swaps,
    "histories": Histories,
    "rates": StatedRates,
    "halves": Halves,
    "control": Control,
}
