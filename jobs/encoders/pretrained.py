"""Reading folders in the layout of Hugging Face: safetensors only, no code of the folder, nothing fetched."""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.errors import ConfigError

# Besides weights and config, what decides how words become pieces.
_TOKENIZER_FILES = (
    "tokenizer*.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.*",
    "merges.txt",
    "*.model",
)


def encoder_config(folder: str) -> Any:
    """The config of an encoder; `hidden_size` and `num_hidden_layers` are among its attributes.

    Raises:
        ConfigError: As `pretrained`, or the model is no encoder.
    """
    config = pretrained("AutoConfig", folder)
    is_encoder = (
        not config.is_encoder_decoder and hasattr(config, "hidden_size") and hasattr(config, "num_hidden_layers")
    )
    if not is_encoder:
        raise ConfigError(f"{folder}: a {config.model_type} is no encoder of the kind of BERT")
    return config


def word_tokenizer(folder: str) -> Any:
    """The tokenizer, which reads sentences that are words already.

    Raises:
        ConfigError: As `pretrained`, or the tokenizer can't do that.
    """
    tokenizer = pretrained("AutoTokenizer", folder)
    if getattr(tokenizer, "add_prefix_space", None) is False:
        # Without it, tokenizers of bytes read words that are already apart as if glued together.
        tokenizer = pretrained("AutoTokenizer", folder, add_prefix_space=True)
    if not tokenizer.is_fast:
        raise ConfigError(f"{folder}: its tokenizer cannot tell which word a piece is of; a tokenizer.json is needed")
    if tokenizer.pad_token_id is None:
        raise ConfigError(f"{folder}: its tokenizer has no padding token; this is no model of the kind of BERT")
    return tokenizer


def pretrained(auto_class: str, folder: str, **options: Any) -> Any:
    """What a class of the library makes of the folder, with nothing fetched and no code of the folder run.

    Raises:
        ConfigError: The library isn't installed, or can't read the folder.
    """
    os.environ["HF_HUB_OFFLINE"] = "1"  # read by the library on import
    try:
        import transformers  # noqa: PLC0415 - an extra, and slow to import
    except ImportError:
        raise ConfigError(
            f"{folder}: a transformer needs its library: pip install 'elmo-features[transformers]'"
        ) from None
    library: Any = transformers
    library.utils.logging.disable_progress_bar()
    try:
        return getattr(library, auto_class).from_pretrained(
            str(Path(folder).resolve()), local_files_only=True, trust_remote_code=False, **options
        )
    except Exception as error:  # of a damaged folder the library raises nearly anything
        reason = " ".join(str(error).split())[:300]
        raise ConfigError(f"{folder}: {auto_class} cannot be made of it: {type(error).__name__}: {reason}") from None


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files in a folder.

    Raises:
        ConfigError: There are none; names what weights there are instead.
    """
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        found = ", ".join(path.name for path in sorted(folder.glob("*.bin"))) or "no weights"
        raise ConfigError(
            f"{folder}: weights are read from safetensors files only, since others can run code; found {found}"
        )
    return files


def folder_digest(folder: Path, weights: Sequence[Path]) -> str:
    """A SHA-256 over the files that make up the model, by name."""
    tokenizer = {path for pattern in _TOKENIZER_FILES for path in folder.glob(pattern)}
    digest = hashlib.sha256()
    for path in sorted({folder / "config.json", *tokenizer, *weights}):
        with open(path, "rb") as file:
            digest.update(f"{path.name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return digest.hexdigest()
