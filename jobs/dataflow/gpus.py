"""The three ways in which workers of Dataflow share a GPU; they exclude each other."""

from dataclasses import dataclass
from typing import Literal

from pipeline.config import check_choice
from pipeline.errors import ConfigError

GpuMode = Literal["one-model", "mps", "right-fitting"]

# One computes while the others read and write; each holds a shard in memory.
_THREADS = 2
_ONE_PROCESS = "no_use_multiple_sdk_containers"


@dataclass(frozen=True, kw_only=True)
class GpuConfig:
    """A GPU for each worker of Dataflow.

    Attributes:
        accelerator: Google's name of it, such as `nvidia-l4` or `nvidia-tesla-t4`.
        mode: `one-model` has one process and one model a machine. `mps` has a process a core, each with a model, which
            share the GPU by NVIDIA's service: its memory must hold them all. `right-fitting` asks for the GPU for the
            step that computes alone, so that planning and commit run on machines without one.
        driver: Version of NVIDIA's driver; empty for Dataflow's choice.
    """

    accelerator: str
    mode: GpuMode = "one-model"
    driver: str = ""

    def __post_init__(self) -> None:
        check_choice("GPU mode", self.mode, GpuMode)
        if not self.accelerator or not self.accelerator.replace("-", "").isalnum():
            raise ConfigError(f"GPU {self.accelerator!r} is no name of an accelerator, such as nvidia-l4")

    @property
    def flags(self) -> tuple[str, ...]:
        """The options of Beam that this mode stands for."""
        one_process = (f"--experiments={_ONE_PROCESS}", f"--number_of_worker_harness_threads={_THREADS}")
        service = f"--dataflow_service_options=worker_accelerator={self._accelerator}"
        match self.mode:
            case "one-model":
                return (*one_process, service)
            case "mps":
                return (f"{service};use_nvidia_mps",)
            case "right-fitting":
                return one_process

    @property
    def hints(self) -> dict[str, str]:
        """The resource hints of the step that computes."""
        return {"accelerator": self._accelerator} if self.mode == "right-fitting" else {}

    @property
    def _accelerator(self) -> str:
        driver = f":{self.driver}" if self.driver else ""
        return f"type:{self.accelerator};count:1;install-nvidia-driver{driver}"

    def check(self, *, experiments: list[str], service_options: list[str], flexrs_goal: str | None) -> None:
        """Refuses options of Beam that contradict the mode.

        Args:
            experiments: All of them, those of the mode included.
            service_options: All of them, those of the mode included.
            flexrs_goal: Of flexible resource scheduling.

        Raises:
            ConfigError: Naming the two that exclude each other, and why.
        """
        accelerators = [option for option in service_options if option.startswith("worker_accelerator")]
        if self.mode == "right-fitting":
            if accelerators:
                raise ConfigError(
                    "GPU mode right-fitting excludes the service option worker_accelerator, which would give every "
                    "machine a GPU; leave one of them out"
                )
            if flexrs_goal:
                raise ConfigError("GPU mode right-fitting excludes --flexrs_goal: Dataflow does not combine them")
        elif len(accelerators) > 1:
            raise ConfigError(f"--gpu and the service option {accelerators[-1]!r} both ask for a GPU; leave one out")
        if self.mode == "mps" and _ONE_PROCESS in experiments:
            raise ConfigError(f"GPU mode mps excludes the experiment {_ONE_PROCESS}: with one process none can share")
        if self.mode != "mps" and "use_multiple_sdk_containers" in experiments:
            raise ConfigError(
                f"GPU mode {self.mode} excludes the experiment use_multiple_sdk_containers: each of the processes "
                "would load a model of its own; take GPU mode mps for that"
            )
