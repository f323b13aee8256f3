"""Environment variables that fsspec and the packages behind its addresses read."""

_ANY = frozenset({"FSSPEC_*"})
_GOOGLE = frozenset(
    {"GOOGLE_*", "GCLOUD_*", "CLOUDSDK_*", "GCSFS_*", "GCE_METADATA_*", "STORAGE_EMULATOR_HOST", "NO_GCE_CHECK"}
)
_AZURE = frozenset({"AZURE_*", "IDENTITY_ENDPOINT", "IDENTITY_HEADER", "MSI_ENDPOINT", "MSI_SECRET"})
_HADOOP = frozenset({"HADOOP_*", "JAVA_HOME", "CLASSPATH", "ARROW_LIBHDFS_DIR", "KRB5CCNAME", "KRB5_CONFIG"})
_BY_SCHEME = {
    **dict.fromkeys(("s3", "s3a"), frozenset({"AWS_*", "BOTO_CONFIG"})),
    **dict.fromkeys(("gs", "gcs"), _GOOGLE),
    **dict.fromkeys(("abfs", "abfss", "az", "adl"), _AZURE),
    **dict.fromkeys(("hdfs", "webhdfs", "arrow_hdfs"), _HADOOP),
    "oss": frozenset({"OSS_*"}),
    "hf": frozenset({"HF_*"}),
}


def variables(url: str) -> frozenset[str]:
    """Return the names that writing to this address reads; a name that ends in "*" stands for all that begin so.

    An address may chain protocols, such as "simplecache::s3://bucket".
    """
    schemes = [part.partition("://")[0].lower() for part in url.split("::")]
    return _ANY.union(*(_BY_SCHEME.get(scheme, frozenset()) for scheme in schemes))
