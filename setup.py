"""Distribution `elmo-features`: the version and the dependencies are stated here and nowhere else."""

from setuptools import find_packages, setup

EXTRAS = {
    # Running a dump; its own [torch] extra would pin an old torch.
    "beam": ["apache-beam>=2.76"],
    "dask": ["distributed>=2026.1"],
    # What Beam's Dataflow runner and its gs:// files import, without the dozens of clients of Beam's [gcp] extra.
    "dataflow": [
        "apache-beam>=2.76",
        "cachetools>=5",
        "google-apitools>=0.5.35",
        "google-auth>=2.40",
        "google-auth-httplib2>=0.2",
        "google-cloud-core>=2.4",
        "google-cloud-dataflow-client>=0.13,<0.14",
        "google-cloud-storage>=3",
    ],
    "gcs": ["gcsfs>=2024.6"],
    "s3": ["s3fs>=2024.6"],
    # Tokenizers for prose.
    "english": ["spacy>=3.8", "syntok>=1.4"],
    "chinese": ["rjieba>=0.2"],
    # Other encoders.
    "static": ["gensim>=4.4"],
    "transformers": ["transformers>=5"],
    # Pictures, and tasks on stored features.
    "plots": ["matplotlib>=3.9"],
    "tasks": ["nervaluate>=1.2"],
}

TEST = [
    "cloudpickle>=3",
    "gcp-storage-emulator>=2026",
    "hypothesis>=6.100",
    "moto[server]>=5.2",
    "mypy>=1.15",
    "psutil>=5.9",
    "pytest>=8",
    "pytest-xdist>=3.6",
    "ruff>=0.9",
    "setuptools>=77",
]

setup(
    name="elmo-features",
    version="0.1.0",
    description="Frozen ELMo features of a corpus, computed once, exact, resumable and ready for training",
    license="Apache-2.0",
    python_requires=">=3.11",
    packages=find_packages(include=["elmo_model*", "pipeline*", "jobs*"]),
    package_data={
        "elmo_model": ["py.typed", "models/*/*", "pretraining/presets/*.json"],
        "pipeline": ["py.typed"],
        "jobs": ["py.typed", "sample/*", "sample/corpus/*/*", "dataflow/Dockerfile", "dataflow/metadata.json"],
    },
    install_requires=[
        "click>=8.1",
        "fsspec>=2024.6",
        "h5py>=3.11",
        "numpy>=1.26",
        "pyarrow>=15",
        "rich>=13",
        "safetensors>=0.4",
        "torch>=2.6",
    ],
    extras_require={
        **EXTRAS,
        "all": sorted(requirement for requirements in EXTRAS.values() for requirement in requirements),
        "test": TEST,
    },
    entry_points={"console_scripts": ["elmo=jobs.cli:main", "elmo-worker=jobs.worker_boot:main"]},
)
