"""The CUDA toolkit that the server compiles with, and never a driver."""

from io import StringIO

from pyinfra import host, logger
from pyinfra.operations import files

from tasks.shared import cuda, inspection
from tasks.shared.engine import serving
from tasks.shared.operations import cuda as operations
from tasks.shared.settings import settings

own = settings()

if own.accelerator != "cuda":
    host.log(f"accelerator = {own.accelerator}: no CUDA toolkit is needed", logger.info)
else:
    version = cuda.version(own.vllm_version)
    repository = inspection.cuda_repository()
    operations.key_trusted(
        name="Trust the key of NVIDIA's repository", repository=repository, path=cuda.KEYRING
    )
    files.put(
        name="Add NVIDIA's repository",
        src=StringIO(cuda.source(repository)),
        dest=cuda.SOURCE_FILE,
        mode="644",
        create_remote_dir=False,
    )
    if own.wsl2:
        files.put(
            name="Pin every driver package away",
            src=StringIO(cuda.pins()),
            dest=cuda.PIN_FILE,
            mode="644",
            create_remote_dir=False,
        )
    operations.toolkit_installed(
        name=f"Install the toolkit of CUDA {version}",
        packages=cuda.packages(version),
        driver_is_elsewhere=own.wsl2,
    )
    operations.toolkit_compiles(
        name=f"Compile for {cuda.ARCHITECTURE}",
        home=serving.CUDA_HOME,
        version=version,
        architecture=cuda.ARCHITECTURE,
    )
