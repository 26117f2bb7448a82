"""Does a packed ternary checkpoint answer like the same weights in bfloat16? Asks vLLM itself.

usage: VLLMS_PYTHON tests/gpu/ternary/twins.py FOLDER [--architecture qwen3_5] [--bits 4 2]
       [--parallel 4]: so many models at once, on a GPU

Makes a small random ternary model, packs it, lets vLLM read the same texts with each, and compares
the logarithms of the probabilities that it gives to every token. A fourth model, one layer's signs
turned, shows what a wrong weight would look like. Prints one line of JSON; exit status 1 when a
packed model is further from its twin than a tenth of that.
"""

import argparse
import json
import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

CONVERTER = Path(__file__).parents[3] / "files/hostkit/scripts/ternary.py"
VOCABULARY = 512
GROUP = 128

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
}
QWEN3_5 = {
    "architectures": ["Qwen3_5ForCausalLM"],
    "model_type": "qwen3_5_text",
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_num_key_heads": 4,
    "linear_num_value_heads": 8,
    "full_attention_interval": 4,
    "attn_output_gate": True,
    "mamba_ssm_dtype": "bfloat16",
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 10000000,
        "partial_rotary_factor": 0.25,
        "mrope_section": [11, 11, 10],
        "mrope_interleaved": True,
    },
}
COMMON = {
    "vocab_size": VOCABULARY,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "bos_token_id": 0,
    "eos_token_id": 0,
    "pad_token_id": 0,
}
ARCHITECTURES = {"llama": LLAMA, "qwen3_5": QWEN3_5}
ON_GPU = {
    "gpu_memory_utilization": 0.1,
    # Given, not profiled: models are asked side by side.
    "kv_cache_memory_bytes": 1 << 29,
    # FlashInfer's would first be compiled, for minutes.
    "gdn_prefill_backend": "triton",
}


def make(folder: Path, architecture: str, flipped: bool) -> None:
    """Save a random model whose linear layers are {-1, 0, 1} times a scale per GROUP columns."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({**ARCHITECTURES[architecture], **COMMON}))
    torch.manual_seed(0)
    config = AutoConfig.from_pretrained(folder)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    layers = [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) and name != "lm_head"
    ]
    for name, module in layers:
        rows, columns = module.weight.shape
        signs = torch.randint(-1, 2, (rows, columns // GROUP, GROUP))
        scale = (0.5 + torch.rand(rows, columns // GROUP, 1)) * 1.2 / columns**0.5
        if flipped and name == layers[len(layers) // 2][0]:
            signs = -signs
        weight = (signs * scale.to(torch.bfloat16)).reshape(rows, columns)
        module.weight.data = weight.to(torch.bfloat16)
    with torch.no_grad():
        model.get_output_embeddings().weight.normal_(std=4 / config.hidden_size**0.5)
        model.get_input_embeddings().weight.normal_(std=1.0)
    model.save_pretrained(folder)


def answers(folder: Path) -> dict[str, Any]:
    """What vLLM makes of fixed texts: the log-probability of each token, and 16 greedy tokens."""
    from vllm import LLM, SamplingParams

    chance = random.Random(1)
    texts = [[chance.randrange(1, VOCABULARY) for _ in range(200)] for _ in range(4)]
    llm = LLM(
        str(folder),
        dtype="bfloat16",
        skip_tokenizer_init=True,
        max_model_len=512,
        max_num_seqs=4,
        enforce_eager=True,
        enable_prefix_caching=False,
        seed=0,
        **(ON_GPU if _has_gpu() else {}),
    )
    sampling = SamplingParams(
        temperature=0, max_tokens=16, prompt_logprobs=0, ignore_eos=True, detokenize=False
    )
    outputs = llm.generate([{"prompt_token_ids": text} for text in texts], sampling)
    return {
        "logprobs": [
            next(iter(each.values())).logprob
            for output in outputs
            for each in output.prompt_logprobs[1:]
        ],
        "tokens": [list(output.outputs[0].token_ids) for output in outputs],
    }


def _has_gpu() -> bool:
    from vllm.platforms import current_platform

    return bool(current_platform.is_cuda())


def distance(one: dict[str, Any], other: dict[str, Any]) -> float:
    """The mean difference of the log-probabilities."""
    pairs = list(zip(one["logprobs"], other["logprobs"], strict=True))
    return float(sum(abs(a - b) for a, b in pairs) / len(pairs))


def agreeing(one: dict[str, Any], other: dict[str, Any]) -> int:
    """How many texts go on with the same tokens, all 16 of them."""
    return sum(a == b for a, b in zip(one["tokens"], other["tokens"], strict=True))


def run(*arguments: str | Path) -> str:
    """Run a Python program apart from this process; its standard output."""
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        env={"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", **os.environ},
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}")
    return done.stdout


def compare(folder: Path, architecture: str, bits: list[int], parallel: int) -> dict[str, Any]:
    """Make, pack and ask all of them."""
    models = {"twin": folder / "twin", "flipped": folder / "flipped"}
    with ThreadPoolExecutor(parallel) as pool:
        making = [
            pool.submit(run, __file__, path, "--make", name, "--architecture", architecture)
            for name, path in models.items()
        ]
        for each in making:
            each.result()
        for each_bits in bits:
            packed = models[f"int{each_bits}"] = folder / f"int{each_bits}"
            print(run(CONVERTER, models["twin"], packed, "--bits", str(each_bits)), end="")
        asking = [
            pool.submit(run, __file__, path, "--answers", folder / f"{name}.json")
            for name, path in models.items()
        ]
        for each in asking:
            each.result()
    said = {name: json.loads((folder / f"{name}.json").read_text()) for name in models}
    twin = said.pop("twin")
    return {
        "architecture": architecture,
        "distance": {name: round(distance(twin, each), 5) for name, each in said.items()},
        "same_greedy_texts": {name: agreeing(twin, each) for name, each in said.items()},
    }


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--architecture", choices=ARCHITECTURES, default="llama")
    parser.add_argument("--bits", type=int, nargs="+", default=[4])
    parser.add_argument("--parallel", type=int, default=1)
    parser.add_argument("--make", choices=("twin", "flipped"), help=argparse.SUPPRESS)
    parser.add_argument("--answers", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.make:
        make(args.folder, args.architecture, args.make == "flipped")
        return 0
    if args.answers:
        args.answers.write_text(json.dumps(answers(args.folder)))
        return 0
    found = compare(args.folder, args.architecture, args.bits, args.parallel)
    print(json.dumps(found))
    wrong = found["distance"].pop("flipped")
    return int(max(found["distance"].values()) > wrong / 10)


if __name__ == "__main__":
    sys.exit(main())
