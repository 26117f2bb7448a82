"""Asking the Prometheus of this host, through its HTTP API on loopback."""

import http.client
import json
import urllib.error
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hostkit.host import loopback
from hostkit.host.process import Failure

TIMEOUT_S = 120


@dataclass(frozen=True)
class Series:
    """A metric with its labels, and its samples: (Unix time, value), oldest first."""

    labels: dict[str, str]
    samples: list[tuple[float, float]]

    @property
    def name(self) -> str:
        return self.labels.get("__name__", "")


class Prometheus:
    """The one that listens on this port of 127.0.0.1."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    def at(self, time: float, query: str) -> list[Series]:
        """An instant query: of a range selector (`…[60s]`) it has all samples in that range."""
        return self._ask("query", {"query": query, "time": f"{time:.3f}"})

    def over(self, start: float, end: float, step: float, query: str) -> list[Series]:
        """A range query: the value at each step of `step` seconds."""
        times = {"start": f"{start:.3f}", "end": f"{end:.3f}", "step": f"{step:.3f}"}
        return self._ask("query_range", {"query": query, **times})

    def _ask(self, path: str, parameters: Mapping[str, str]) -> list[Series]:
        url = f"{self._url}/api/v1/{path}"
        data = urllib.parse.urlencode(parameters).encode()
        try:
            with loopback.opener.open(url, data, timeout=TIMEOUT_S) as response:
                answer = json.load(response)
            found = answer["data"]["result"]
        except urllib.error.HTTPError as error:
            raise Failure(f"{self._url} refused a query: {_reason(error)}") from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise Failure(
                f"no Prometheus answers at {self._url} ({reason}): "
                "systemctl status vllm-prometheus says why"
            ) from None
        except (ValueError, KeyError, TypeError):
            raise Failure(f"what answers at {self._url} is no Prometheus") from None
        return [_series(each) for each in found]


def _series(found: Mapping[str, Any]) -> Series:
    samples = found.get("values") or [found["value"]]
    return Series(found["metric"], [(float(time), float(value)) for time, value in samples])


def _reason(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(error)["error"])
    except (ValueError, KeyError, TypeError, OSError):
        return f"{error.code} {error.reason}"
