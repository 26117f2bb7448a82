"""What hostkit says of traffic, put together by tests."""

from tasks.shared.facts.traffic import Counted, Gauge, Stretch, Traffic

START = 1795600800.0  # a Wednesday, 10:00 UTC
HOUR = 3600.0


def counted(name: str, value: float, **labels: str) -> Counted:
    return Counted(name=name, value=value, labels=labels)


def gauge(value: float, count: float = 1) -> Gauge:
    return Gauge(min=value, avg=value, max=value, last=value, count=count)


def stretch(*counters: Counted, start: float = START, **gauges: Gauge) -> Stretch:
    """An hour that was watched as a whole."""
    return Stretch.model_validate(
        {
            "from": start,
            "until": start + HOUR,
            "first_sample": start + 15,
            "watched_s": HOUR,
            "up_s": HOUR,
            "counted": counters,
            "gauges": gauges,
        }
    )


def traffic(*stretches: Stretch, **courses: list[tuple[float, float]]) -> Traffic:
    return Traffic(intervals=list(stretches), courses=courses)
