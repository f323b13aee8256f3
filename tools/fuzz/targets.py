"""Every target by name. Each is made where it is used: two of them run a gateway, one the control plane."""

from collections.abc import Callable

from tools.fuzz.bodies import Bodies
from tools.fuzz.configs import Configs
from tools.fuzz.control import Control
from tools.fuzz.events import Events
from tools.fuzz.halves import Halves
from tools.fuzz.histories import Histories
from tools.fuzz.rates import StatedRates
from tools.fuzz.redaction import Redaction
from tools.fuzz.swaps import Swaps
from tools.fuzz.target import Target
from tools.fuzz.wire import Requests, Responses

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
