"""When the first token of an answer comes, and when the last: asked as a client does."""

import http.client
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hostkit.serving import server


@dataclass(frozen=True)
class Reply:
    """Seconds from the request to its first token, and to its last."""

    first_s: float
    total_s: float


def ask(found: server.Server, prompt: str, tokens: int, timeout_s: float = 600) -> Reply:
    """An answer of exactly so many tokens to a text. Raises NotAnswering."""
    address = (found.url.removeprefix("http://"), server.api_key(found.pid), found.model)
    return complete(*address, prompt, tokens, timeout_s)


def complete(
    address: str,
    key: str,
    model: str,
    prompt: str | Sequence[int],
    tokens: int,
    timeout_s: float = 600,
) -> Reply:
    """The same at any HOST:PORT; the prompt is a text or its tokens. Raises NotAnswering."""
    body: dict[str, Any] = {
        "model": model,
        "prompt": prompt if isinstance(prompt, str) else list(prompt),
        "max_tokens": tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "return_token_ids": True,
    }
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    connection = http.client.HTTPConnection(address, timeout=timeout_s)
    asked, times = time.monotonic(), []
    try:
        connection.request("POST", "/v1/completions", json.dumps(body), headers)
        response = connection.getresponse()
        if response.status != 200:
            said = response.read().decode("utf-8", "replace")[:300]
            raise server.NotAnswering(f"/v1/completions answered {response.status}: {said}")
        for line in response:
            if line.startswith(b"data:") and b"[DONE]" not in line:
                choice = (json.loads(line[5:]).get("choices") or [{}])[0]
                times += [time.monotonic()] * len(choice.get("token_ids") or [])
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise server.NotAnswering(f"/v1/completions did not answer: {error}") from None
    finally:
        connection.close()
    if len(times) != tokens:
        raise server.NotAnswering(f"{len(times)} tokens came instead of {tokens}")
    return Reply(times[0] - asked, times[-1] - asked)
