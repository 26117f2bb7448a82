"""Remove old generations and releases; none that is current, staged, or could be gone back to."""

from tasks.shared import releases
from tasks.shared.operations import vllm
from tasks.shared.settings import settings

vllm.pruned(
    name="Remove what is kept no longer",
    generations=settings().keep_generations,
    releases=settings().keep_releases,
    wanted=releases.wanted(settings()).name,
)
