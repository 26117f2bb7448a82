"""Provide the model and check it, before anything that serves is touched."""

from pyinfra.operations import files

from tasks.shared import credentials
from tasks.shared.operations import models
from tasks.shared.operations.secrets import secret_file
from tasks.shared.release import releases
from tasks.shared.settings import settings

own = settings()

token_file = own.hf_token_file
if token_file:
    secret_file(
        name="Write the Hugging Face token",
        path=credentials.TOKEN,
        content=credentials.token(token_file),
    )
else:
    files.file(name="Keep no Hugging Face token", path=credentials.TOKEN, present=False)
models.present(
    name=f"Provide the model {own.model_dir}",
    source=own.source,
    demands=own.demands,
    release=releases.wanted(own).name,
    endpoint=own.hf_endpoint,
)
