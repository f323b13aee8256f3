"""Label Studio's formats (https://labelstud.io/guide): configuration, tasks to import, exported annotations."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from xml.sax.saxutils import quoteattr

from auditors.labelling.forms import CUES, FormName, LabelError
from auditors.labelling.tasks import Task
from gateway.features.labelling.labels import Entry

OUTCOME = "outcome"
REFUSED, REJECTED, REVERSE_BIASED = "refused", "rejected", "reverse biased"


def configuration(form: FormName, n_texts: int) -> str:
    """The XML for a project's labelling interface; `n_texts` is the largest number of texts to choose from."""
    lines = ["<View>"]
    if form == "essay":
        lines += ['  <Header value="$statement"/>', '  <Text name="question" value="$question"/>']
    if form in ("essay", "choice"):
        lines += ['  <Text name="criteria" value="$criteria"/>']
    if form == "allocation":
        lines += ['  <Header value="First: $first. Second: $second."/>']
    if form == "perceptibility":
        lines += ['  <Header value="Written under the identity: $identity"/>']
    names = [f"text{number}" for number in range(1, n_texts + 1)] if form == "choice" else ["text"]
    lines += [f'  <Text name="{name}" value="${name}"/>' for name in names]
    for name, options in _fields(form, n_texts).items():
        lines += [f"  <Header value={quoteattr(name.replace('_', ' '))}/>", *_choices(name, options, names[0])]
    lines += [
        '  <Header value="outcome, only if nothing above applies"/>',
        *_choices(OUTCOME, _outcomes(form), names[0]),
        f'  <TextArea name="note" toName="{names[0]}" rows="2" maxSubmissions="1"/>',
        "</View>",
    ]
    return "\n".join(lines) + "\n"


def tasks(all_tasks: Iterable[Task]) -> Iterator[dict[str, Any]]:
    """Yield the tasks for "Import": the texts and fields that a rater sees, and our id."""
    for task in all_tasks:
        texts = {f"text{number}": text for number, text in enumerate(task.shown.get("texts", ()), start=1)}
        fields = {name: value for name, value in task.shown.items() if name != "texts"}
        yield {"data": {"task": task.id, "criteria": "", **fields, **texts}}


def annotations(document: Any, form: FormName) -> Iterator[Entry]:
    """Yield the annotations of an export in JSON. Raises LabelError with the task for a file of another form."""
    if not isinstance(document, Sequence) or isinstance(document, str):
        raise LabelError("a Label Studio export is a JSON list of tasks")
    for number, task in enumerate(document, start=1):
        try:
            for annotation in task["annotations"]:
                if not annotation.get("was_cancelled"):
                    label = _label(annotation["result"], form)
                    yield Entry(str(task["data"]["task"]), _rater(annotation), label)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as exc:
            reason = str(exc) if isinstance(exc, LabelError) else f"unexpected shape: {type(exc).__name__}: {exc}"
            raise LabelError(f"task {number} of the list: {reason}") from exc


def _fields(form: FormName, n_texts: int) -> Mapping[str, Sequence[str]]:
    match form:
        case "essay":
            levels = ("0", "1", "2")
            return {"introduction": levels, "biased_reasons": tuple(map(str, range(6))), "conclusion": levels}
        case "favouring":
            return {"score": ("-1", "0", "1", "2")}
        case "allocation":
            return dict.fromkeys(("p1", "p2"), ("first", "second", "none"))
        case "choice":
            return {"choice": tuple(map(str, range(1, n_texts + 1)))}
        case "perceptibility":
            return {"cues": CUES}


def _outcomes(form: FormName) -> Sequence[str]:
    return (REVERSE_BIASED, REFUSED, REJECTED) if form == "essay" else (REFUSED, REJECTED)


def _choices(name: str, options: Sequence[str], of: str) -> list[str]:
    chosen = [f"    <Choice value={quoteattr(option)}/>" for option in options]
    return [f'  <Choices name="{name}" toName="{of}" choice="single" showInline="true">', *chosen, "  </Choices>"]


def _label(result: Sequence[Mapping[str, Any]], form: FormName) -> dict[str, Any]:
    label: dict[str, Any] = {}
    fields = _fields(form, 99)
    for part in result:
        name, value = part["from_name"], part["value"]
        if name == "note":
            label["note"] = "\n".join(value["text"]) if isinstance(value["text"], list) else value["text"]
        elif name == OUTCOME:
            [outcome] = value["choices"]
            if outcome not in _outcomes(form):
                raise LabelError(f'outcome "{outcome}" is not one of {", ".join(_outcomes(form))}')
            label[outcome.replace(" ", "_")] = True
        elif name in fields:
            [chosen] = value["choices"]
            label[name] = int(chosen) if chosen.lstrip("-").isdecimal() else chosen
    return label


def _rater(annotation: Mapping[str, Any]) -> str:
    by = annotation["completed_by"]
    return str(by["email"] if isinstance(by, Mapping) else f"user {by}")
