"""Networks over the 24 hours before a decision: bodies, training and trained policies."""

from importlib.util import find_spec

from mirage.errors import ConfigurationError
from mirage.extras import install

if find_spec("torch") is None:
    raise ConfigurationError(f"networks need PyTorch, which is not installed; run: {install('learn')}")
