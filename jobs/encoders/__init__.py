"""Adapters that show each model family to the pipeline as an encoder."""
