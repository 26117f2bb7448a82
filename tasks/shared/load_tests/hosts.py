"""What a host says before a load test: hostkit's `load-test outlook`."""

from pydantic import BaseModel, ConfigDict


class Outlook(BaseModel):
    """The server that would be measured. `why_not` is in words; None when it may be."""

    model_config = ConfigDict(frozen=True)

    why_not: str | None = None
    generation: int = 0
    digest: str = ""
    release: str = ""
    max_model_len: int = 0
    max_num_seqs: int = 1
    kv_tokens: int = 0
    offloads: bool = False
    has_ssd_tier: bool = False
    hardware: list[str] = []
    versions: dict[str, str] = {}
