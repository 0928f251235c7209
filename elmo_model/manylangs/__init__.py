"""Models of ELMoForManyLangs: their folders, dictionaries and pickles, read into the biLM of this package."""
