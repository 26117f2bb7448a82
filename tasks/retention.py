"""Remove old generations and releases; none that is current, staged, or could be gone back to."""

from tasks.shared import credentials
from tasks.shared.generation import desired
from tasks.shared.operations import vllm
from tasks.shared.release import releases
from tasks.shared.settings import settings

vllm.pruned(
    name="Remove what is kept no longer",
    generations=settings().keep_generations,
    releases=settings().keep_releases,
    release=releases.wanted(settings()),
    generation=desired.generation(credentials.api_key(settings().api_key_file)),
)
