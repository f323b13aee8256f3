"""Environment variables that say where published data sets are kept and where they are fetched from."""

HOME_VARIABLE = "BIASGATE_HOME"
MIRROR_VARIABLE = "BIASGATE_DATASETS_MIRROR"
