"""Answers of the messages endpoint."""

from typing import Any

from auditors.text.answers.collecting import MOST_PARTS, Answer, Item, Json, json_text, string


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
