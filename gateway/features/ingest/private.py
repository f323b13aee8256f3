"""Parts of exchanges as they may be kept until the rest comes: redacted as what is stored is."""

from collections import Counter

import msgspec

from gateway.features.ingest.received import Part
from gateway.privacy.bodies import redacted_request, redacted_response
from gateway.privacy.redaction import Redactor


def private(part: Part, redactor: Redactor | None) -> Part:
    """The part without what identifies a person. Who asked is left out: parts have no index by it."""
    fields = {name: value for name, value in part.fields.items() if name != "user"}
    part = msgspec.structs.replace(part, fields=fields)
    if redactor is None:
        return part
    found = Counter[str]()
    asked = redacted_request(msgspec.json.encode({"messages": part.asked}), redactor, found)
    answered = redacted_response(msgspec.json.encode({"choices": part.answered}), redactor, found)
    return msgspec.structs.replace(
        part,
        asked=msgspec.json.decode(asked)["messages"],
        answered=msgspec.json.decode(answered)["choices"],
        request=None if part.request is None else redacted_request(part.request, redactor, found) or None,
        response=None if part.response is None else redacted_response(part.response, redactor, found) or None,
    )
