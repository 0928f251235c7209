"""Small task models that train on the features of a store: taggers, classifiers, probes, nearest senses."""
