"""Answers of the messages endpoint and of the responses endpoint."""

from typing import Any

from auditors.text.answers.collecting import MOST_PARTS, Answer, Item, Json, entry, json_text, objects, string


class Message(Answer):
    def __init__(self) -> None:
        super().__init__()
        self._blocks: list[Item] = []
        self._open: dict[int, Item] = {}
        """The block of each index that began last."""

    def take(self, event: Json) -> None:
        number = event.get("index")
        index = number if isinstance(number, int) else 0
        match event.get("type"):
            case "message_start" if isinstance(event.get("message"), dict):
                self._note(event["message"])
            case "content_block_start" if isinstance(event.get("content_block"), dict):
                self._begin(event["content_block"], index)
            case "content_block_delta" if isinstance(event.get("delta"), dict):
                self._add(event["delta"], index)
            case "message_delta":
                self._note(event)
                self._end(event.get("delta"))
            case "message_stop":
                self.is_ended = True

    def take_whole(self, response: Json) -> bool:
        content = response.get("content")
        if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
            return False
        self._note(response)
        for index, block in enumerate(content):
            self._begin(block, index)
        self._end(response)
        return True

    def _begin(self, block: Json, index: int) -> Item | None:
        self._open.pop(index, None)
        if len(self._blocks) >= MOST_PARTS:
            return None
        item = self._open[index] = Item()
        self._blocks.append(item)
        item.kind, item.name = string(block.get("type")), string(block.get("name"))
        item.write("text", 0, block.get("text"))
        item.write("thinking", 0, block.get("thinking"))
        if isinstance(tool_input := block.get("input"), dict) and tool_input:
            item.arguments.write(json_text(tool_input))
        return item

    def _add(self, delta: Json, index: int) -> None:
        match delta.get("type"):
            case "text_delta":
                self._write("text", index, delta.get("text"))
            case "thinking_delta":
                self._write("thinking", index, delta.get("thinking"))
            case "input_json_delta":
                item = self._open.get(index) or self._begin({"type": "tool_use"}, index)
                if item is not None:
                    item.arguments.write(string(delta.get("partial_json")))

    def _write(self, kind: str, index: int, text: Any) -> None:
        item = self._open.get(index) or self._begin({"type": kind}, index)
        if item is not None:
            item.write(kind, 0, text)

    def _end(self, fields: Any) -> None:
        if isinstance(fields, dict) and isinstance(reason := fields.get("stop_reason"), str):
            self._about["stop_reason"] = reason

    def _parts(self) -> Json:
        return {"content": [self._whole_block(block) for block in self._blocks]}

    def _whole_block(self, block: Item) -> Json:
        whole: Json = {"type": block.kind}
        for (kind, _), text in block.texts.items():
            if (content := text.getvalue()) or kind == block.kind:
                whole[kind] = content
        if block.name:
            whole["name"] = block.name
        if arguments := block.arguments.getvalue():
            whole["input"] = arguments
        return whole


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
