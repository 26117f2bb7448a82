"""When memory is too low, and how many compilers fit: pure decisions on the kernel's own texts."""

from pathlib import Path

import pytest

from hostkit.host import memory
from hostkit.host.memory import Sample

GIB = 1024
MEMINFO = b"""\
MemTotal:       24684052 kB
MemFree:         1288396 kB
MemAvailable:   23540736 kB
SwapCached:            0 kB
SwapTotal:       6291456 kB
SwapFree:        6291000 kB
"""
PRESSURE = b"""\
some avg10=12.00 avg60=0.10 avg300=0.18 total=98242114
full avg10=3.50 avg60=0.00 avg300=0.00 total=42222956
"""


def sample(available_gib, **other):
    return Sample(total=24 * GIB, available=int(available_gib * GIB), **other)


def reactions(series, floor_gib=4):
    watch = memory.Watch(floor_gib * GIB)
    return [bool(watch.feed(each)) for each in series]


def test_the_kernels_texts_are_read():
    found = memory.parse(MEMINFO, PRESSURE)
    assert found == Sample(24105, 22989, 6144, 6143, 3.5)


def test_a_kernel_without_pressure_information_has_none(tmp_path):
    meminfo = tmp_path / "meminfo"
    meminfo.write_bytes(MEMINFO)
    reader = memory.Reader(meminfo, tmp_path / "nothing")
    assert reader.sample() == Sample(24105, 22989, 6144, 6143, 0.0)
    reader.close()


def test_this_machine_can_be_read():
    reader = memory.Reader()
    assert 0 < reader.sample().available <= reader.sample().total
    reader.close()


def test_the_third_low_sample_calls_for_action():
    assert reactions(map(sample, (5, 3, 1.5, 1.4))) == [False, False, False, True]


def test_a_good_sample_in_between_starts_the_count_again():
    assert not any(reactions(map(sample, (3, 3, 5, 3, 3, 5))))


def test_after_an_action_three_more_are_needed():
    series = map(sample, (1, 1, 1, 1, 1, 1))
    assert reactions(series) == [False, False, True, False, False, True]


@pytest.mark.parametrize(
    ("other", "is_low"),
    [
        ({}, False),
        ({"swap_total": 6 * GIB, "swap_free": 6 * GIB}, False),
        ({"swap_total": 6 * GIB, "swap_free": 500}, True),
        ({"swap_total": 0, "swap_free": 0}, False),
        ({"pressure": 19.0}, False),
        ({"pressure": 35.0}, True),
    ],
)
def test_swap_and_pressure_count_below_twice_the_floor(other, is_low):
    assert bool(memory.low(sample(5, **other), 4 * GIB)) is is_low
    assert not memory.low(sample(9, **other), 4 * GIB)


def test_the_reason_names_what_was_found_and_what_was_expected():
    why = memory.low(sample(1.5), 3 * GIB)
    assert why == "1536 MiB of memory are available, the floor is 3072 MiB"


@pytest.mark.parametrize(("total_gib", "floor_gib"), [(8, 1), (24, 3), (128, 3)])
def test_the_floor_follows_the_machine(total_gib, floor_gib):
    assert memory.default_floor(total_gib * GIB) == floor_gib * GIB


@pytest.mark.parametrize(("available_gib", "fit"), [(1, 1), (6, 1), (26, 1), (27, 2), (64, 5)])
def test_a_compiler_job_needs_twelve_gib_above_the_floor(available_gib, fit):
    found = memory.jobs(sample(available_gib), 3 * GIB)
    assert found.fit == fit
    assert f"{available_gib * GIB} MiB available" in found.arithmetic


def test_the_files_are_the_kernels():
    assert Path("/proc/meminfo") == memory.MEMINFO
