"""The model's folder on the host is damaged. What was sent from here is sent again."""

from .fault import Fault


def _model(name: str, where: str, plant: str) -> Fault:
    return Fault("model", name, where, plant)


_INDEX = '{"metadata": {}, "weight_map": {"weight": "model-00002-of-00002.safetensors"}}'

MODEL = (
    _model("a shard is cut short", "model.safetensors", "truncate -s -1 $M/model.safetensors"),
    _model("a shard is gone", "model.safetensors", "rm $M/model.safetensors"),
    _model("a shard is junk", "model.safetensors", "junk $M/model.safetensors"),
    _model(
        "the index names a shard that is not there",
        "model.safetensors.index.json",
        f"echo '{_INDEX}' >$M/model.safetensors.index.json",
    ),
    _model("config.json is cut to nothing", "config.json", ": >$M/config.json"),
    _model("the service may not read the folder", "model-*/", "chmod 700 $M"),
    _model(
        "half a model is left of a transfer that was cut",
        "model-*.new/",
        "mkdir $M.new; junk $M.new/model.safetensors; rm $M/config.json",
    ),
    _model("the folder is a link to elsewhere", "model-*", "mv $M /srv/model; ln -s /srv/model $M"),
)
