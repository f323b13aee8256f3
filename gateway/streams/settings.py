"""The [drift] section as the detectors take it, for processes that need no suite run."""

from auditors.streams.drift import DriftSettings
from gateway.config.schema import DriftConfig


def settings_of(config: DriftConfig) -> DriftSettings:
    """The settings without the intervals of a run."""
    run = config.reference.get("run")
    return DriftSettings(
        average_run_length=config.average_run_length,
        tolerance=config.tolerance,
        smallest_change=config.smallest_change,
        equivalence_margin=config.equivalence_margin,
        false_discovery_rate=config.false_discovery_rate,
        reference_window=int(config.reference.get("window", DriftSettings().reference_window)),
        reference_run=None if run is None else str(run),
    )
