"""Tables of the papers, repeated with small models: what is compared, the runs, and how they are shown."""
