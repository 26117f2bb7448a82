"""The model's folder on the host is damaged. What was sent from here is sent again."""

from .fault import Fault


def _model(name: str, where: str, plant: str) -> Fault:
    return Fault("model", name, where, plant)


MODEL = (
    _model("a shard is cut short", "model.safetensors", "truncate -s -1 $M/model.safetensors"),
    _model("a shard is gone", "model.safetensors", "rm $M/model.safetensors"),
    _model("a shard is junk", "model.safetensors", "junk $M/model.safetensors"),
)
