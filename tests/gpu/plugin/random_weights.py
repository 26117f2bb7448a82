"""vLLM's load format `random`: the weights of tests/gpu/model.py, drawn on the device.

A vLLM plugin: with this folder on PYTHONPATH, every process of the server finds it.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any


def _model() -> Any:
    """tests/gpu/model.py by its path: the server's interpreter knows nothing of this repository."""
    spec = importlib.util.spec_from_file_location(
        "gpu_model", Path(__file__).parents[1] / "model.py"
    )
    assert spec
    assert spec.loader
    module = sys.modules.setdefault(spec.name, importlib.util.module_from_spec(spec))
    spec.loader.exec_module(module)
    return module


def register() -> None:
    """Called by vLLM in each of its processes, perhaps more than once."""
    from vllm.model_executor.model_loader import _LOAD_FORMAT_TO_MODEL_LOADER, register_model_loader
    from vllm.model_executor.model_loader.base_loader import BaseModelLoader

    if "random" in _LOAD_FORMAT_TO_MODEL_LOADER:
        return

    @register_model_loader("random")
    class RandomWeights(BaseModelLoader):  # type: ignore[misc]
        def download_model(self, model_config: Any) -> None:
            pass

        def load_weights(self, model: Any, model_config: Any) -> None:
            source = _model()
            device = next(
                (str(p.device) for p in model.parameters() if p.device.type == "cuda"), "cpu"
            )
            shape = source.shape_of(model_config.hf_config)
            loaded = model.load_weights(source.fill(shape, device))
            missing = {name for name, _ in model.named_parameters()} - set(loaded)
            if missing:
                raise ValueError(f"no weights for {sorted(missing)[:5]}, {len(missing)} in all")
