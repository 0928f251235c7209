"""Distribution `elmo-features`: the version and the dependencies are stated here and nowhere else."""

from setuptools import find_packages, setup

TESTS = ["hypothesis>=6.100", "psutil>=5.9", "pytest>=8"]
LINT = ["mypy>=1.15", "ruff>=0.9"]

setup(
    name="elmo-features",
    version="0.1.0",
    description="Frozen ELMo features of a corpus, computed once, exact, resumable and ready for training",
    license="Apache-2.0",
    python_requires=">=3.11",
    packages=find_packages(include=["elmo_model*", "pipeline*", "jobs*"]),
    package_data={"elmo_model": ["py.typed"], "pipeline": ["py.typed"], "jobs": ["py.typed"]},
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
        "beam": ["apache-beam>=2.76"],
        "test": TESTS + LINT,
    },
    entry_points={"console_scripts": ["elmo=jobs.cli:main"]},
)
