"""Physics in the user's own language: only what tinyphysics.front offers, NumPy, and random bits."""
from importlib import import_module
from types import ModuleType

FILES = ("chains", "fields", "fluids", "particles", "starts", "zoo")


def __getattr__(name: str) -> ModuleType:
    """`tp.physics.chains` imports the file, and NumPy, when it is first used."""
    if name not in FILES:
        raise AttributeError(f"tinyphysics.physics has no `{name}`")
    return import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *FILES})
