"""Networks over the 24 hours before a decision: transformer and mixture of experts, their training and their policy."""

from importlib.util import find_spec

from mirage.errors import ConfigurationError

if find_spec("torch") is None:
    raise ConfigurationError('networks need PyTorch, which is not installed; run: pip install "mirage-hpc[learn]"')
