"""Input formats, one module each: from the lines or rows of a file to its sentences as they stand there."""
