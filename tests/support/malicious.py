"""An object that does something when it is unpickled."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Malicious:
    """On being unpickled, makes a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return os.mkdir, (self.folder,)
