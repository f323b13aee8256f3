"""The [drift] section as the detectors take it, for processes that need no suite run."""

from auditors.streams.drift import DriftSettings
from gateway.config.schema import DriftConfig

_ALIKE = ("average_run_length", "tolerance", "smallest_change", "equivalence_margin", "false_discovery_rate")


def settings_of(config: DriftConfig) -> DriftSettings:
    """The settings without the intervals of a run."""
    run = config.reference.get("run")
    return DriftSettings(
        **{name: getattr(config, name) for name in _ALIKE},
        reference_window=int(config.reference.get("window", DriftSettings().reference_window)),
        reference_run=None if run is None else str(run),
    )
