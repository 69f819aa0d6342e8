"""Adds libmaypole.so to the package, where the C++ build has made it. The rest stands in pyproject.toml."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools before 70.1
    from wheel.bdist_wheel import bdist_wheel

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "build" / "release" / "lib" / "libmaypole.so"


class BuildWithLibrary(build_py):
    def run(self):
        super().run()
        if LIBRARY.exists():
            shutil.copy2(LIBRARY.resolve(), Path(self.build_lib) / "maypole" / LIBRARY.name)


class PlatformWheel(bdist_wheel):
    """One wheel for every Python of this platform: the library is bound to the platform, ctypes to no Python."""

    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = not LIBRARY.exists()

    def get_tag(self):
        python, abi, platform = super().get_tag()
        return ("py3", "none", platform) if LIBRARY.exists() else (python, abi, platform)


setup(
    cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": PlatformWheel},
    options={"build": {"build_base": str(ROOT / "build" / "python")}},  # no build folder beside the sources
)
