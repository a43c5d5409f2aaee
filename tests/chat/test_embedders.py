"""External embedders: well and badly behaved endpoints, and the arithmetic of MiniLM."""

from __future__ import annotations

import json
import math
import os
import socket
import traceback
from typing import TYPE_CHECKING, Any

import pytest

from dibs.chat.analyst.embedders import DIMENSIONS, cosine, open_embedder, piece_words
from dibs.chat.analyst.external_embedders import Endpoint
from dibs.chat.analyst.services import Service
from dibs.core.errors import DibsError, Misconfigured, ServiceUnavailable
from support.openai_server import Asked, Told, endpoint

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KEY = "sk-very-secret-0123456789"
PATIENCE = 120.0  # seconds; a busy machine may be slow to answer
HASTE = 0.3  # where the endpoint never answers in time
LONG = 10 * PATIENCE


def vector(text: str, length: int = DIMENSIONS) -> list[float]:
    """A vector of any length that differs for each text."""
    return [math.sin(1 + at * len(text)) * 3 for at in range(length)]


def embeddings(asked: Asked) -> Told:
    rows = [
        {"index": at, "embedding": vector(text), "object": "embedding"} for at, text in enumerate(asked.body["input"])
    ]
    return Told({"object": "list", "data": rows[::-1], "model": asked.body["model"]})


def embedder(url: str) -> Any:
    return open_embedder(f"openai:text-embedding-3-small@{url}", {"DIBS_EMBEDDING_KEY": KEY})


def endpoint_at(url: str, rests: list[float] | None = None, timeout: float = PATIENCE) -> Endpoint:
    rest = (lambda _: None) if rests is None else rests.append
    service = Service(
        "The embedding endpoint", f"{url}/embeddings", KEY, key_name="DIBS_EMBEDDING_KEY", timeout=timeout, rest=rest
    )
    return Endpoint("m", service)


def test_endpoint_gets_openai_requests_and_returns_unit_vectors() -> None:
    with endpoint(embeddings) as server:
        found = embedder(server.url).embed(["Book the hall", "Hi"])
    (asked,) = server.asked
    assert asked.path == "/v1/embeddings"
    assert asked.headers["Authorization"] == f"Bearer {KEY}"
    assert asked.body == {"model": "text-embedding-3-small", "input": ["Book the hall", "Hi"], "dimensions": 384}
    length = math.hypot(*vector("Hi"))
    assert found[1] == pytest.approx([number / length for number in vector("Hi")])
    assert [math.hypot(*each) for each in found] == pytest.approx([1, 1])


def test_many_texts_are_split_into_requests() -> None:
    with endpoint(embeddings) as server:
        assert embedder(server.url).embed([]) == []
        found = embedder(server.url).embed([f"text {'x' * (number % 7)}" for number in range(600)])
    assert len(found) == 600
    assert [len(asked.body["input"]) for asked in server.asked] == [256, 256, 88]
    assert cosine(found[0], found[7]) == pytest.approx(1)


LEAKY = {"error": {"message": f"Incorrect API key provided: {KEY}"}}


def _of(change: Callable[[list[Any]], object]) -> Callable[[Asked], Told]:
    def answer(asked: Asked) -> Told:
        rows: list[Any] = [{"index": at, "embedding": vector(text)} for at, text in enumerate(asked.body["input"])]
        change(rows)
        return Told(json.dumps({"data": rows}).encode())

    return answer


BAD: dict[str, tuple[Callable[[Asked], Told], str]] = {
    "a key it does not know": (lambda _: Told(LEAKY, 401), "check DIBS_EMBEDDING_KEY (HTTP status 401)"),
    "a key without rights": (lambda _: Told(LEAKY, 403), "rejected the key"),
    "no such model": (lambda _: Told({}, 404), "no such model"),
    "asked too often": (lambda _: Told({}, 429, (("Retry-After", "3600"),)), "(HTTP status 429), try again in 3600"),
    "out of order": (lambda _: Told(b"<html>oops</html>", 500), "internal error (HTTP status 500)"),
    "a redirect": (lambda _: Told(b"", 307, (("Location", "http://127.0.0.1:9/"),)), "HTTP status 307"),
    "no JSON": (lambda _: Told(b"\x00\xff garbage"), "not JSON"),
    "half an answer": (lambda _: Told(b'{"data": [', headers=(("Content-Length", "99"),)), "cannot be used"),
    "a list": (lambda _: Told([1, 2]), "did not return embeddings"),
    "texts for numbers": (_of(lambda rows: rows[0].update(embedding=["a"] * 384)), "did not return embeddings"),
    "not a number": (_of(lambda rows: rows[0].update(embedding=[math.nan] * 384)), "did not return embeddings"),
    "nothing but zeros": (_of(lambda rows: rows[0].update(embedding=[0.0] * 384)), "did not return embeddings"),
    "too long": (_of(lambda rows: rows[0].update(embedding=[1.0] * 1536)), "1536 numbers per text instead of 384"),
    "one missing": (_of(lambda rows: rows.pop()), "0 embeddings for 1 texts"),
    "slow": (lambda _: Told({}, pause=LONG), "did not answer within 0.3 seconds"),
    "dripping": (lambda _: Told({"data": "x" * 50_000}, drip=0.05), "did not answer within 0.3 seconds"),
}  # fmt: skip


@pytest.mark.parametrize("trouble", BAD)
def test_endpoint_errors_are_reported_without_the_key(trouble: str) -> None:
    answer, told = BAD[trouble]
    with endpoint(answer) as server:
        asked = endpoint_at(server.url, timeout=HASTE if "within" in told else PATIENCE)
        with pytest.raises(ServiceUnavailable) as caught:
            asked.embed(["Book the hall"])
    assert told in caught.value.message
    shown = "".join(traceback.format_exception(caught.value))
    assert KEY not in shown + repr(asked) + repr(asked._service)


def test_missing_endpoint_is_reported() -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))  # and does not listen
        url = f"http://127.0.0.1:{reserved.getsockname()[1]}/v1"
        with pytest.raises(ServiceUnavailable, match="cannot be reached"):
            endpoint_at(url).embed(["Book the hall"])


def test_retry_after_is_respected_once() -> None:
    rests: list[float] = []
    with endpoint(lambda _: Told({}, 429, (("Retry-After", "2"),)), embeddings) as server:
        assert len(endpoint_at(server.url, rests).embed(["Book the hall"])) == 1
    assert rests == [2.0]
    with endpoint(lambda _: Told({}, 503)) as server, pytest.raises(ServiceUnavailable):
        endpoint_at(server.url, rests).embed(["Book the hall"])
    assert (len(server.asked), rests) == (2, [2.0, 1.0])


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/", "http://", "127.0.0.1:80", "http://127.0.0.1:none/"])
def test_invalid_url_is_rejected_before_any_request(url: str) -> None:
    with pytest.raises(Misconfigured, match="https://"):
        embedder(url)


def test_endpoint_url_with_a_password_is_refused() -> None:
    with pytest.raises(Misconfigured) as caught:
        embedder("https://me:hunter2@127.0.0.1/v1")
    assert "hunter2" not in caught.value.message


def test_key_unfit_for_a_header_is_refused() -> None:
    with pytest.raises(Misconfigured) as caught:
        open_embedder("openai:m@http://127.0.0.1/v1", {"DIBS_EMBEDDING_KEY": f"{KEY}\nX: y"})
    assert KEY not in caught.value.message


@pytest.mark.parametrize("setting", ["", "word2vec", "minilm", "minilm:/nowhere", "openai", "builtin:x"])
def test_unknown_embedder_lists_the_known_ones(setting: str) -> None:
    with pytest.raises(DibsError) as caught:
        open_embedder(setting, {})
    assert caught.value.code == "MISCONFIGURED"
    assert "minilm" in caught.value.message.lower()


def test_minilm_matches_sentence_transformers() -> None:
    """The first numbers of each vector, from sentence-transformers 6.2.0."""
    folder = os.environ.get("DIBS_TEST_MINILM")
    if folder is None:
        missing = "DIBS_TEST_MINILM names no folder with all-MiniLM-L6-v2: docs/reference/chat.md says how to get it."
        pytest.fail(missing) if os.environ.get("CI") else pytest.skip(missing)
    found = open_embedder(f"minilm:{folder}", {}).embed(list(KNOWN))
    for each, (start, total) in zip(found, KNOWN.values(), strict=True):
        assert each[:3] == pytest.approx(start, abs=2e-6)
        assert sum(each) == pytest.approx(total, abs=2e-5)


KNOWN: dict[str, tuple[list[float], float]] = {
    "Book the hall": ([0.0374440, 0.0491596, -0.0200291], 0.4265556),
    "Ring the plumber about the dripping tap, naïvely — 3\u00d7!": ([-0.0379330, -0.0290867, -0.0123389], 0.1889144),
    "ﬁne Zürich 日本 東京 visit €20 ½ “quote”": ([0.0398440, 0.1107085, 0.1212259], -0.2097977),
}


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Zürich, 3€!", ["zurich", ",", "3€", "!"]),
        ("€20 $5 ½", ["€20", "$", "5", "½"]),
        ("日本 e-mail", ["日", "本", "e", "-", "mail"]),
        ("zero\u200bwidth\x00 “q”", ["zerowidth", "“", "q", "”"]),
    ],
)
def test_words_are_split_like_the_models_tokenizer(text: str, parts: list[str]) -> None:
    assert list(piece_words(text)) == parts


def test_batched_texts_do_not_affect_each_other(tmp_path: Path) -> None:
    """With the model's form and random weights; a small inner width keeps the file small."""
    pytest.importorskip("numpy")
    _random_model(tmp_path)
    found = open_embedder(f"minilm:{tmp_path}", {})
    texts = ["hall", "book the hall for the band", "the band", "book book book the the the hall hall hall band" * 3, ""]
    together = found.embed(texts)
    assert [math.hypot(*each) for each in together] == pytest.approx([1] * 5, abs=1e-6)
    for text, each in zip(texts, together, strict=True):
        assert found.embed([text])[0] == pytest.approx(each, abs=1e-5)
    assert cosine(together[0], together[2]) < 0.999


def _random_model(folder: Path) -> None:
    import numpy as np

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "book", "the", "hall", "for", "band"]
    (folder / "vocab.txt").write_text("\n".join(words))
    shapes: dict[str, tuple[int, ...]] = {"embeddings.word_embeddings.weight": (9, 384)} | _norm("embeddings.LayerNorm")
    shapes |= {"embeddings.position_embeddings.weight": (256, 384), "embeddings.token_type_embeddings.weight": (2, 384)}
    for layer in range(6):
        name = f"encoder.layer.{layer}"
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            shapes |= _dense(f"{name}.attention.{part}", 384, 384)
        shapes |= _norm(f"{name}.attention.output.LayerNorm") | _norm(f"{name}.output.LayerNorm")
        shapes |= _dense(f"{name}.intermediate.dense", 8, 384) | _dense(f"{name}.output.dense", 384, 8)
    dice, header, raw = np.random.default_rng(3), {}, bytearray()
    for tensor, shape in shapes.items():
        around = 1.0 if tensor.endswith("LayerNorm.weight") else 0.0
        numbers = (around + dice.standard_normal(shape) * 0.1).astype("<f4").tobytes()
        header[tensor] = {"dtype": "F32", "shape": shape, "data_offsets": [len(raw), len(raw) + len(numbers)]}
        raw += numbers
    told = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(len(told).to_bytes(8, "little") + told + raw)


def _dense(name: str, out: int, into: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (out, into), f"{name}.bias": (out,)}


def _norm(name: str) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (384,), f"{name}.bias": (384,)}
