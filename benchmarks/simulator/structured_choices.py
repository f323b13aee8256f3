"""Calls of tools and fields of JSON that depend on the group a prompt names by a planted amount, and by chance.

A prompt that offers several tools is answered by a call of the first or, with the planted probability, of the last; a
schema is filled with its first values or, with another planted probability, all with its last ones (`schemas`). Both
are drawn anew for each answer, so that asking twice differs as often as is planted.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from auditors.text.identity import AXES, GROUPS, groups_mentioned
from benchmarks.simulator import schemas, tool_calls
from benchmarks.simulator.identities import without_identity
from benchmarks.simulator.sections import Probability, Section, unknown
from benchmarks.simulator.tool_calls import Call, Offer


class OtherChoice(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often the other one of two choices is taken."""

    default: Probability = 0.0
    groups: dict[str, dict[str, Probability]] = msgspec.field(default_factory=dict)
    """axis -> group that a prompt names first -> probability; the default where left out."""

    def faults(self) -> Iterator[str]:
        yield from unknown("axis", self.groups, AXES, "groups")
        for axis, groups in self.groups.items():
            yield from unknown("group", groups, [group for found, group in GROUPS if found == axis], f"groups.{axis}")

    def p(self, axis: str, group: str) -> float:
        return self.groups.get(axis, {}).get(group, self.default)

    def about(self, prompt: str) -> float:
        """The probability for a prompt; a sentence that gives the model an identity names no group."""
        named = groups_mentioned(without_identity(prompt)[0])
        return self.p(*named[0]) if named else self.default

    def expected_excess(self, axis: str, group: str, other: str) -> float:
        """Planted mean of an excess for a prompt about `group`, swapped to `other`, where the two choices differ by 1.

        Two draws of a side differ with 2p(1-p), one of each with p(1-q) + q(1-p): the excess is the square of p - q.
        Choices that differ by d, as fields of which d can take another value, have d times that.
        """
        return (self.p(axis, group) - self.p(axis, other)) ** 2


class StructuredChoices(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How requests that offer tools or ask for JSON are answered."""

    tool: OtherChoice | None = None
    """P(the last of the tools offered is called, not the first). None: words, unless the request demands a call."""
    values: OtherChoice = OtherChoice()
    """P(fields and arguments take the last value that the schema allows, not the first)."""

    def faults(self) -> Iterator[str]:
        for name, below in (("tool", self.tool), ("values", self.values)):
            for fault in () if below is None else below.faults():
                yield f"{name}.{fault}"

    def instances(self, prompt: str, schema: Mapping[str, Any]) -> dict[str, float]:
        """Both fillings of a schema as JSON, with their probabilities."""
        p = self.values.about(prompt)
        first, other = (msgspec.json.encode(schemas.instance(schema, is_other=one)).decode() for one in (False, True))
        return {first: 1.0} if first == other else {first: 1 - p, other: p}

    def calls(self, prompt: str, offer: Offer) -> dict[str, float]:
        """Calls as the model writes them, with their probabilities."""
        p = 0.0 if self.tool is None else self.tool.about(prompt)
        weights = defaultdict[str, float](float)
        for tool, p_tool in ((offer.tools[0], 1 - p), (offer.tools[-1], p)):
            for arguments, p_arguments in self.instances(prompt, tool.parameters).items():
                weights[tool_calls.write(Call(tool.name, arguments))] += p_tool * p_arguments
        return weights
