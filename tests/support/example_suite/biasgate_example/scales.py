"""The range of the metric of the example auditor: with it, the metric has a stream, an estimate and a detector."""

from auditors.streams.scales import Scale

SCALES = {"words": Scale(0.0, 1_000.0)}
TAKEN = {"favoritism": Scale(0.0, 1.0)}
