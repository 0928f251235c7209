"""Errors of the model package; each message says what was given, what is allowed and what to do."""


class ElmoModelError(Exception):
    """Anything this package refuses; one line, meant to be shown to the user as it is."""


class OptionsError(ElmoModelError):
    """An options file or value that no biLM can be built from."""


class VocabularyError(ElmoModelError):
    """A vocabulary file that is missing, undecodable, or not one word a line with the three marks."""


class WeightsError(ElmoModelError):
    """A weight file that is missing, cut, of another kind, or doesn't fit the options."""


class DeviceError(ElmoModelError):
    """A device, precision or kernel that this machine or model can't give."""
