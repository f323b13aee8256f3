"""Joins an answer into the form that is stored and audited, the shape in which its endpoint answers at once; linear.
What only a stream tells (an error, no end, an unreadable event) are notes; unknown events say nothing.
"""

from auditors.text.answers.chat import Chat, Completion
from auditors.text.answers.collecting import Answer, Json
from auditors.text.answers.responses import Message, Response
from auditors.text.events import server_events
from auditors.text.lenient_json import read_piece, well_formed

NOTES = "stream_notes"
"""Member of a joined answer: what only its stream could tell."""
BROKEN, CUT_OFF, ERROR = "broken event", "stream cut off", "error event"
STREAM_NOTES = frozenset({BROKEN, CUT_OFF, ERROR})

_ANSWERS: dict[str, type[Answer]] = {
    "/v1/chat/completions": Chat,
    "/v1/completions": Completion,
    "/v1/responses": Response,
    "/v1/messages": Message,
}


def joined(endpoint: str, body: bytes) -> Json:
    """The answer that the events of a stream make together. Raises KeyError for an endpoint without answers."""
    answer = _ANSWERS[endpoint]()
    notes: dict[str, None] = {}
    for event in server_events(body, takes_last=True):
        text = event.data.strip()
        if text == "[DONE]":
            answer.is_ended = True
        elif text:
            try:
                piece = read_piece(text)
            except ValueError:
                piece = None
            if not isinstance(piece, dict):
                notes[BROKEN] = None
            elif event.name == "error" or piece.get("type") == "error" or piece.get("error"):
                notes[ERROR] = None
            else:
                answer.take(piece)
    if answer.has_failed:
        notes[ERROR] = None
    if not answer.is_ended:
        notes[CUT_OFF] = None
    whole = answer.whole()
    if notes:
        whole[NOTES] = list(notes)
    return _well_formed(whole)


def trimmed(endpoint: str, response: Json) -> Json | None:
    """Return the same form of an answer that came at once; None when it has not the shape of an answer."""
    answer = _ANSWERS[endpoint]()
    if not answer.take_whole(response):
        return None
    return _well_formed(answer.whole())


def _well_formed(answer: Json) -> Json:
    whole: Json = well_formed(answer)
    return whole
