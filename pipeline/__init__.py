"""From a corpus to a verified feature store and back to training; any model, seen only as an encoder."""
