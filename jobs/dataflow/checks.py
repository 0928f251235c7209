"""What a job on Dataflow cannot do without, or cannot combine; refused before anything is submitted."""

from typing import Any

from jobs.dataflow.gpus import GpuConfig
from pipeline.config import Device
from pipeline.errors import ConfigError
from pipeline.storage import Folder


def check_dataflow(options: dict[str, Any], *, gpu: GpuConfig | None, device: Device, output: Folder) -> None:
    """Refuses what would fail on Dataflow only after machines were started and paid for.

    Args:
        options: All options of Beam by name, defaults included.
        gpu: The GPU of each worker; None for workers without.
        device: What the encoder is to compute on.
        output: The store.

    Raises:
        ConfigError: Naming what is missing or contradicts, and what to do.
    """
    if output.is_local:
        raise ConfigError(f"{output.url} is on this machine, where Dataflow's workers cannot write; give a gs:// URL")
    image, setup_file = options.get("sdk_container_image"), options.get("setup_file")
    if image and setup_file:
        raise ConfigError("--sdk_container_image and --setup_file both bring this package to the workers; give one")
    if not image and not setup_file:
        raise ConfigError(
            "the workers need this package: give an image that holds it by --sdk_container_image, "
            "or its sources by --setup_file=./setup.py"
        )
    if options.get("save_main_session"):
        raise ConfigError("--save_main_session is of no use: all code is in the installed package")
    if gpu is None:
        if device == "cuda":
            raise ConfigError("--device cuda needs --gpu, such as --gpu nvidia-l4: workers have none by themselves")
        return
    if device == "cpu":
        raise ConfigError("--gpu with --device cpu would pay for a GPU and not use it; leave one of them out")
    if not image:
        raise ConfigError("--gpu needs --sdk_container_image: Beam's own image has no torch that computes on a GPU")
    gpu.check(
        experiments=options.get("experiments") or [],
        service_options=options.get("dataflow_service_options") or [],
        flexrs_goal=options.get("flexrs_goal"),
    )
