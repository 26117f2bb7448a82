"""Does vLLM's KV offload copy by the GPU's address of host memory? Tests of the real modules.

usage: PYTHON host_pointers.py DEVICE [MUTANT]   PYTHON: an interpreter that has the patched vLLM

DEVICE: `imitated` needs no GPU: the CUDA runtime, streams and copies are imitations that know which
addresses the GPU may touch. `cuda` is the real thing: the region is mapped twice and only the
second mapping is registered, so that host and device address differ as under WSL2, and while a copy
runs the first mapping cannot be touched at all. MUTANT: `missing` or `sign` breaks the address on
purpose; the run must fail then.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import sys
import types
import unittest
import uuid
from typing import Any
from unittest import mock

import torch
from vllm.distributed.device_communicators import cuda_wrapper
from vllm.v1.kv_offload.base import (
    CanonicalKVCacheRef,
    CanonicalKVCaches,
    CanonicalKVCacheTensor,
    CanonicalPageMapping,
    CopyRun,
    GPULoadStoreSpec,
)
from vllm.v1.kv_offload.cpu import gpu_worker
from vllm.v1.kv_offload.cpu.common import CPULoadStoreSpec
from vllm.v1.kv_offload.cpu.shared_offload_region import SharedOffloadRegion

RANKS = 2
GPU_BLOCKS = 24
CHUNKS = 24
LARGE, SMALL = 64 * 1024, 1024
"""Bytes of a page: copied by the driver's batch copy; small ones by Triton, from CPU to GPU."""


class IllegalAccess(Exception):
    """The imitated GPU was given an address that it does not have."""


class Region:
    """A region of vLLM's, and a second mapping of the same memory."""

    def __init__(self, row: int, page: int) -> None:
        self.region = SharedOffloadRegion(
            engine_id=f"test-{uuid.uuid4()}",
            num_chunks=CHUNKS,
            rank=1,
            kv_bytes_per_chunk=row,
            cpu_page_size=page,
        )
        os.unlink(self.region.mmap_path)  # the mappings stay
        self.size = self.region.total_size_bytes
        assert self.region.fd is not None
        self.second = mmap.mmap(self.region.fd, self.size)
        self.host = self.region.base_tensor.data_ptr()
        self.device = ctypes.addressof(ctypes.c_char.from_buffer(self.second))
        self.shift = self.device - self.host

    def reachable(self, yes: bool) -> None:
        """Let the region's own mapping, which the GPU knows nothing of, be touched or not."""
        protection = mmap.PROT_READ | mmap.PROT_WRITE if yes else 0
        if ctypes.CDLL(None).mprotect(ctypes.c_void_p(self.host), self.size, protection):
            raise OSError("mprotect failed")


class Imitated:
    """A GPU whose memory is the host's, and which knows registered memory by another address."""

    def __init__(self, second: Region, in_wsl: bool = True, failing: bool = False) -> None:
        self.second = second
        self.failing = failing
        self.registered: list[int] = []
        self.unregistered: list[int] = []
        self.memory: list[tuple[int, int]] = [(second.device, second.device + second.size)]
        platform = mock.MagicMock()
        platform.is_cuda_alike.return_value = True
        platform.is_xpu.return_value = platform.is_rocm.return_value = False
        self._patches: list[Any] = [
            mock.patch.object(gpu_worker, "current_platform", platform),
            mock.patch.object(gpu_worker, "CudaRTLibrary", return_value=self),
            mock.patch.object(gpu_worker, "HAS_TRITON", False),
            mock.patch.object(gpu_worker, "in_wsl", return_value=in_wsl),
            mock.patch.object(gpu_worker.ops, "swap_blocks_batch", self.copy),
            mock.patch.object(torch, "Event", mock.MagicMock()),
        ]

    def __enter__(self) -> Imitated:
        for each in self._patches:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._patches:
            each.stop()

    # The CUDA runtime, as vLLM's wrapper of it is called.
    def cudaHostRegister(self, ptr: int, size: int, flags: int = 0) -> int:
        self.registered.append(ptr)
        return 0

    def cudaHostUnregister(self, ptr: int) -> int:
        self.unregistered.append(ptr)
        return 0

    def cudaHostGetDevicePointer(self, ptr: int) -> tuple[int, int]:
        return (1, 0) if self.failing else (0, ptr + self.second.shift)

    def cudaGetLastError(self) -> int:
        return 0

    def tensor(self, size: tuple[int, int]) -> torch.Tensor:
        class OnGpu(torch.Tensor):  # type: ignore[misc]
            is_cuda = True

        made = torch.randint(-128, 128, size, dtype=torch.int8)
        self.memory.append((made.data_ptr(), made.data_ptr() + made.nbytes))
        return made.as_subclass(OnGpu)

    @contextlib.contextmanager
    def pinning(self):
        """The worker is made as where memory can be pinned; its own buffers cannot be, here."""
        with mock.patch.object(gpu_worker, "PIN_MEMORY", True):
            yield

    def copy(self, src, dst, sizes, *, is_src_access_order_any: bool) -> None:
        for source, target, size in zip(src.tolist(), dst.tolist(), sizes.tolist(), strict=True):
            for address in (source, target):
                if not any(low <= address and address + size <= up for low, up in self.memory):
                    raise IllegalAccess(hex(address))
            ctypes.memmove(target, source, size)

    def transfer(self, start) -> None:
        start()


class Cuda:
    """The GPU. Only the second mapping is ever registered."""

    def __init__(self, second: Region) -> None:
        self.second = second
        registered: list[int] = []
        self.registered = registered

        class Runtime(cuda_wrapper.CudaRTLibrary):  # type: ignore[misc]
            def cudaHostRegister(self, ptr, size, flags=0):
                result = super().cudaHostRegister(ptr + second.shift, size, flags)
                if result == 0:
                    registered.append(ptr)
                return result

            def cudaHostUnregister(self, ptr):
                return super().cudaHostUnregister(ptr + second.shift)

            def cudaHostGetDevicePointer(self, ptr):
                return super().cudaHostGetDevicePointer(ptr + second.shift)

        self.runtime = Runtime

    def __enter__(self) -> Cuda:
        self._patch = mock.patch.object(gpu_worker, "CudaRTLibrary", self.runtime)
        self._patch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._patch.stop()
        # The next region may come to lie at this one's address.
        for each in self.registered:
            assert self.runtime().cudaHostUnregister(each) == 0

    def tensor(self, size: tuple[int, int]) -> torch.Tensor:
        return torch.randint(-128, 128, size, dtype=torch.int8, device="cuda")

    @contextlib.contextmanager
    def pinning(self):
        yield

    def transfer(self, start) -> None:
        torch.cuda.synchronize()
        self.second.reachable(False)
        try:
            start()
            torch.cuda.synchronize()
        finally:
            self.second.reachable(True)


DEVICE: type[Imitated | Cuda] = Imitated
MUTANT = ""


def worker(device, region: SharedOffloadRegion, page: int, per_chunk: int, canonical: bool):
    """vLLM's own worker of rank 1 with one KV tensor, and that tensor."""
    gpu = device.tensor((GPU_BLOCKS, page))
    mapping = CanonicalPageMapping(
        canonical_page_size_bytes=RANKS * page,
        local_page_size_bytes=page,
        runs=(CopyRun(0, page // 4, page // 4, 4, page // 4, RANKS * page // 4),),
        num_writers=1,
        writer_index=0,
        parallelism_agnostic=True,
    )
    reference = CanonicalKVCacheRef(0, page, mapping if canonical else None)
    caches = CanonicalKVCaches([CanonicalKVCacheTensor(gpu, page)], [[reference]])
    with device.pinning():
        made = gpu_worker.CPUOffloadingWorker(caches, per_chunk, CHUNKS, region, canonical)
    for handler in (made._store_handler, made._load_handler):
        if MUTANT:
            factor = {"missing": 0, "sign": -1}[MUTANT]
            handler.src_ptr_delta *= factor
            handler.dst_ptr_delta *= factor
    return made, gpu


class EveryByteArrives(unittest.TestCase):
    """Out to the region and back into other blocks, in each layout and size."""

    def round_trip(self, *, canonical: bool, page: int, per_chunk: int) -> None:
        chunk = page * per_chunk
        second = Region(RANKS * chunk, chunk)
        assert second.shift != 0
        with DEVICE(second) as device:
            made, gpu = worker(device, second.region, page, per_chunk, canonical)
            assert second.region.device_ptr_delta == second.shift
            assert second.region.pinned_addresses == [second.host]

            blocks = list(range(20))
            chunks = [3, 1, 4, 15, 9, 2, 6, 5, 8, 7, 20, 21, 22, 23, 0, 10, 11, 12, 13, 14]
            chunks = chunks[: len(blocks) // per_chunk]
            before = gpu.cpu().clone()
            out = (GPULoadStoreSpec(blocks, [len(blocks)], [0]), CPULoadStoreSpec(chunks))
            device.transfer(lambda: made.submit_store(1, *out))

            # What the fs tier would write: the host's own view.
            rows = second.region.base_tensor.view(CHUNKS, -1)
            for place, block in enumerate(blocks):
                row = rows[chunks[place // per_chunk]]
                if canonical:
                    pages = row.view(per_chunk, 4, RANKS, page // 4)
                    found = pages[place % per_chunk, :, 1].reshape(-1)
                else:
                    start = chunk + place % per_chunk * page
                    found = row[start : start + page]
                assert torch.equal(found, before[block]), f"block {block}"

            gpu.zero_()
            targets = blocks[::-1]
            back = (CPULoadStoreSpec(chunks), GPULoadStoreSpec(targets, [len(targets)], [0]))
            device.transfer(lambda: made.submit_load(2, *back))
            after = gpu.cpu()
            for target, block in zip(targets, blocks, strict=True):
                assert torch.equal(after[target], before[block]), f"block {block}"
        second.region.is_pinned = False  # what was registered is the other mapping

    def test_each_rank_has_its_own_place(self) -> None:
        self.round_trip(canonical=False, page=LARGE, per_chunk=1)

    def test_each_rank_has_its_own_place_with_two_blocks_a_chunk(self) -> None:
        self.round_trip(canonical=False, page=LARGE, per_chunk=2)

    def test_ranks_share_canonical_pages(self) -> None:
        self.round_trip(canonical=True, page=LARGE, per_chunk=1)

    def test_ranks_share_canonical_pages_with_two_blocks_a_chunk(self) -> None:
        self.round_trip(canonical=True, page=LARGE, per_chunk=2)

    def test_pages_that_are_small_enough_for_the_triton_copy(self) -> None:
        self.round_trip(canonical=False, page=4 * SMALL, per_chunk=1)
        self.round_trip(canonical=True, page=4 * SMALL, per_chunk=1)


class NotKnown(unittest.TestCase):
    """What happens when the driver does not tell the device's address (imitated)."""

    def setUp(self) -> None:
        self.second = Region(RANKS * LARGE, LARGE)

    def test_under_wsl2_the_start_ends_and_nothing_stays_registered(self) -> None:
        with Imitated(self.second, failing=True) as device:
            with self.assertRaisesRegex(RuntimeError, "WSL2.*cudaHostGetDevicePointer"):  # noqa: PT027
                worker(device, self.second.region, LARGE, 1, canonical=False)
            assert device.registered == device.unregistered
            assert len(device.registered) == 1
        assert not self.second.region.is_pinned

    def test_elsewhere_the_host_addresses_are_used_as_before(self) -> None:
        with Imitated(self.second, in_wsl=False, failing=True) as device:
            made, _ = worker(device, self.second.region, LARGE, 1, canonical=False)
            assert device.unregistered == []
        assert self.second.region.is_pinned
        for handler in (made._store_handler, made._load_handler):
            assert (handler.src_ptr_delta, handler.dst_ptr_delta) == (0, 0)

    def test_under_wsl2_chunks_that_differ_in_it_end_the_start(self) -> None:
        answers = iter([(0, 1 << 40), (0, 1 << 41)])
        with (
            Imitated(self.second) as device,
            mock.patch.object(gpu_worker, "MAX_HOST_REGISTER_CHUNK_BYTES", self.second.size // 2),
            mock.patch.object(device, "cudaHostGetDevicePointer", side_effect=answers),
        ):
            with self.assertRaisesRegex(RuntimeError, "2 different offsets"):  # noqa: PT027
                worker(device, self.second.region, LARGE, 1, canonical=False)
            assert sorted(device.registered) == sorted(device.unregistered)
            assert len(device.registered) == 2


class SameAddress(unittest.TestCase):
    """Where both sides have the same address, the descriptors are those of the unpatched code."""

    def test_the_addresses_are_the_tensors_own(self) -> None:
        second = Region(RANKS * LARGE, LARGE)
        second.shift = 0
        seen: list[tuple[list[int], list[int]]] = []
        with Imitated(second, in_wsl=False) as device:
            device.memory.append((second.host, second.host + second.size))
            made, gpu = worker(device, second.region, LARGE, 1, canonical=False)
            made._store_handler._swap_blocks_batch = lambda src, dst, sizes, **_: seen.append(
                (src.tolist(), dst.tolist())
            )
            made.submit_store(1, GPULoadStoreSpec([2, 5], [2], [0]), CPULoadStoreSpec([7, 1]))
        row, start = RANKS * LARGE, second.host + LARGE
        source = [gpu.data_ptr() + block * LARGE for block in (2, 5)]
        assert seen == [(source, [start + chunk * row for chunk in (7, 1)])]


class Wrapper(unittest.TestCase):
    """The new entry of vLLM's wrapper of the CUDA runtime."""

    def test_it_is_looked_up_and_called_with_its_own_types(self) -> None:
        function = {each.name: each for each in cuda_wrapper.CudaRTLibrary.exported_functions}[
            "cudaHostGetDevicePointer"
        ]
        assert function.argtypes == [
            ctypes.POINTER(ctypes.c_void_p),
            ctypes.c_void_p,
            ctypes.c_uint,
        ]
        names = cuda_wrapper.CudaRTLibrary.cuda_to_hip_mapping
        assert names["cudaHostGetDevicePointer"] == "hipHostGetDevicePointer"

    def test_it_returns_code_and_address(self) -> None:
        def entry(device, host, flags) -> int:
            device._obj.value = host.value + 4096
            return 0

        wrapper = types.SimpleNamespace(funcs={"cudaHostGetDevicePointer": entry})
        ask = cuda_wrapper.CudaRTLibrary.cudaHostGetDevicePointer
        assert ask(wrapper, 1 << 40) == (0, (1 << 40) + 4096)


def main(device: str, mutant: str = "") -> None:
    global DEVICE, MUTANT
    DEVICE, MUTANT = Cuda if device == "cuda" else Imitated, mutant
    cases = [EveryByteArrives] if device == "cuda" or mutant else list(_all())
    suite = unittest.TestSuite(map(unittest.defaultTestLoader.loadTestsFromTestCase, cases))
    result = unittest.TextTestRunner(verbosity=2, stream=sys.stdout).run(suite)
    sys.stdout.flush()
    # Not sys.exit: a CUDA error that sticks would be raised once more while Python ends.
    os._exit(0 if result.wasSuccessful() else 1)


def _all():
    return (each for each in globals().values() if isinstance(each, type) and _is_case(each))


def _is_case(each: type) -> bool:
    return issubclass(each, unittest.TestCase)


if __name__ == "__main__":
    main(*sys.argv[1:])
