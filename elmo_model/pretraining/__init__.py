"""Pretraining of a biLM on text, as in the original program: data, losses, optimization, checkpoints and evaluation.

Nothing here opens a corpus: sentences come as iterables of tokens.
"""
