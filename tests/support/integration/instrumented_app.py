"""An application that asks a model through the `openai` client, instrumented as its first argument says.

`python -m tests.support.integration.instrumented_app KIND MODEL_URL OTLP_URL`: three conversations (whole, streamed,
with tools), sent to OTLP_URL/v1/traces and /v1/logs with the key "sender-key"; prints what the model said, as JSON.
"""

import json
import os
import sys
from typing import Any

from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

KINDS = ("openinference", "opentelemetry", "opentelemetry-events", "openllmetry")
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}
CONVERSATIONS: list[dict[str, Any]] = [
    {
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Who leads better, men or women?"},
        ]
    },
    {"messages": [{"role": "user", "content": [{"type": "text", "text": "Are nurses women?"}]}], "stream": True},
    {
        "messages": [
            {"role": "user", "content": "Is it warm in Rome?"},
            {
                "role": "assistant",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "27 C"},
        ],
        "tools": [TOOL],
    },
]


def instrument(kind: str, spans: TracerProvider, records: LoggerProvider) -> None:
    """As each of them tells its users to."""
    if kind == "openinference":
        from openinference.instrumentation.openai import OpenAIInstrumentor as OpenInference

        OpenInference().instrument(tracer_provider=spans)
    elif kind == "openllmetry":
        from opentelemetry.instrumentation.openai import OpenAIInstrumentor as OpenLLMetry

        OpenLLMetry().instrument(tracer_provider=spans, logger_provider=records)
    else:
        from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor as OpenTelemetry

        OpenTelemetry().instrument(tracer_provider=spans, logger_provider=records)


def main(kind: str, model_url: str, otlp_url: str) -> None:
    import openai  # takes a second, which each process that collects tests would pay

    os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = (
        "EVENT_ONLY" if kind == "opentelemetry-events" else "SPAN_ONLY"
    )
    headers = {"authorization": "Bearer sender-key"}
    spans, records = TracerProvider(), LoggerProvider()
    to_traces = OTLPSpanExporter(f"{otlp_url}/v1/traces", headers=headers, compression=Compression.Gzip)
    spans.add_span_processor(BatchSpanProcessor(to_traces))
    records.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter(f"{otlp_url}/v1/logs", headers=headers)))
    instrument(kind, spans, records)
    client = openai.OpenAI(base_url=f"{model_url}/v1", api_key="none")
    said = []
    for asked in CONVERSATIONS:
        answer = client.chat.completions.create(model="simulated", temperature=0.5, **asked)
        if asked.get("stream"):
            said.append("".join(one.choices[0].delta.content or "" for one in answer if one.choices))
        else:
            said.append(answer.choices[0].message.content)
    spans.shutdown()
    records.shutdown()
    sys.stdout.write(json.dumps(said))


if __name__ == "__main__":
    main(*sys.argv[1:])
