"""Output channels."""


def __getattr__(name: str):
    raise NotImplementedError(name)
