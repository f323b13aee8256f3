"""Environment variables of model clients and local embedders; "*" at the end stands for all that begin so."""

OUTGOING_HTTP = frozenset(
    {
        *(name for proxy in ("HTTP", "HTTPS", "ALL", "NO") for name in (f"{proxy}_PROXY", f"{proxy}_PROXY".lower())),
        *("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NETRC"),
    }
)
"""Proxies, and the certificates that servers are checked by."""

LOCAL_EMBEDDER = frozenset(
    {
        *("HF_*", "HUGGINGFACE_*", "TRANSFORMERS_*", "SENTENCE_TRANSFORMERS_*", "TOKENIZERS_*", "XDG_*"),
        *("TORCH*", "PYTORCH_*", "OMP_*", "MKL_*", "KMP_*", "OPENBLAS_*", "CUDA_*", "NVIDIA_*", "HIP_*", "ROCR_*"),
        *("HSA_*", "OPENVINO_*", "OV_*"),
    }
)
"""Variables that say where models lie, and on how many threads and which device they are computed."""
