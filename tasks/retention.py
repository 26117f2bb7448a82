"""Remove old generations and releases; none that is current, staged, or could be gone back to."""

from tasks.shared.generation import desired
from tasks.shared.operations import vllm
from tasks.shared.release import releases
from tasks.shared.settings import settings

own = settings()

vllm.pruned(
    name="Remove what is kept no longer",
    generations=own.keep_generations,
    releases=own.keep_releases,
    release=releases.wanted(own),
    generation=desired.generation(own),
)
