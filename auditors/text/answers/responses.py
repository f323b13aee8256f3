"""Answers of the responses endpoint."""

from typing import Any

from auditors.text.answers.collecting import Answer, Item, Json, entry, objects, string


class Response(Answer):
    def __init__(self) -> None:
        super().__init__()
        self._items: dict[tuple[str, int], Item] = {}
        """By kind (message, reasoning or anything else: a call) and index."""

    def take(self, event: Json) -> None:
        place, index = event.get("output_index"), event.get("content_index", event.get("summary_index"))
        match event.get("type"):
            case "response.output_text.delta":
                self._write("message", place, "output_text", index, event.get("delta"))
            case "response.refusal.delta":
                self._write("message", place, "refusal", index, event.get("delta"))
            case "response.reasoning_text.delta" | "response.reasoning_summary_text.delta":
                self._write("reasoning", place, "summary_text", index, event.get("delta"))
            case "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta":
                if (call := self._item("call", place)) is not None:
                    call.kind = call.kind if call.kind != "message" else "function_call"
                    call.arguments.write(string(event.get("delta")))
            case "response.output_item.added" if isinstance(event.get("item"), dict):
                self._begin(event["item"], place)
            case "response.created" | "response.in_progress" if isinstance(event.get("response"), dict):
                self._note(event["response"])
            case "response.failed":
                self.has_failed = self.is_ended = True
            case "response.completed" | "response.incomplete" if isinstance(event.get("response"), dict):
                self.is_ended = True
                if not self._items:  # a server that sends no pieces
                    self._take_items(event["response"])
                self._end(event["response"])

    def take_whole(self, response: Json) -> bool:
        output = response.get("output")
        if not isinstance(output, list) or not all(isinstance(item, dict) and "type" in item for item in output):
            return False
        self._take_items(response)
        self._end(response)
        return True

    def _take_items(self, response: Json) -> None:
        for place, item in enumerate(objects(response.get("output"))):
            collected = self._begin(item, place)
            if collected is None:
                continue
            collected.arguments.write(string(item.get("arguments", item.get("input"))))
            for field, kind in (("content", "output_text"), ("summary", "summary_text")):
                for index, part in enumerate(objects(item.get(field))):
                    is_refusal = part.get("type") == "refusal"
                    collected.write(
                        "refusal" if is_refusal else kind, index, part.get("refusal" if is_refusal else "text")
                    )
            if isinstance(item.get("content"), str):
                collected.write("output_text", 0, item["content"])

    def _begin(self, item: Json, place: Any) -> Item | None:
        kind = string(item.get("type"))
        collected = self._item(kind if kind in ("message", "reasoning") else "call", place)
        if collected is not None:
            collected.kind, collected.name = kind, string(item.get("name"))
        return collected

    def _item(self, kind: str, place: Any) -> Item | None:
        return entry(self._items, (kind, place if isinstance(place, int) else 0), Item)

    def _write(self, kind: str, place: Any, part: str, index: Any, text: Any) -> None:
        collected = self._item(kind, place)
        if collected is not None:
            collected.kind = kind
            collected.write(part, index, text)

    def _end(self, response: Json) -> None:
        self._note(response)
        if isinstance(status := response.get("status"), str):
            self._about["status"] = status
        details = response.get("incomplete_details")
        if isinstance(details, dict) and isinstance(reason := details.get("reason"), str):
            self._about["incomplete_details"] = {"reason": reason}

    def _parts(self) -> Json:
        return {"output": [self._whole_item(item) for item in self._items.values()]}

    def _whole_item(self, item: Item) -> Json:
        parts = [
            {"type": kind, "refusal" if kind == "refusal" else "text": text.getvalue()}
            for (kind, _), text in item.texts.items()
        ]
        whole: Json = {"type": item.kind}
        if item.kind == "message" or parts:
            whole["content"] = parts
        if item.name:
            whole["name"] = item.name
        if arguments := item.arguments.getvalue():
            whole["arguments"] = arguments
        return whole
