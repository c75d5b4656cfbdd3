"""Gate kernel and driver changes for Raspberry Pi class boards on measured network throughput.

This module lists the public names of the package. Each name is imported on first use, so that an installed but unused
plugin costs nothing. Names that are not listed here can change between two releases.
"""

# Type checkers treat this name as true. ``typing.TYPE_CHECKING`` is not used because importing ``typing`` costs time.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from pytest_pinet.errors import (
        BuildError,
        BuildMismatch,
        CapabilityError,
        ChangedBuildError,
        ConfigError,
        ConsoleError,
        CoordinatorError,
        DroppedLink,
        Inconclusive,
        InvalidMeasurement,
        KernelError,
        LabError,
        LeaseError,
        LinkError,
        OutputError,
        PinetError,
        PowerError,
        QuarantineError,
        ShutdownError,
        SshError,
        SwitchError,
        TagsLostError,
        ToolError,
        TrafficError,
        UnfitBuildError,
        UnsupportedError,
    )
    from pytest_pinet.execution.trace import doing
    from pytest_pinet.lab.link.link import Link
    from pytest_pinet.model.limits import Limit
    from pytest_pinet.model.quantities import Bitrate
    from pytest_pinet.model.traffic import Direction
    from pytest_pinet.model.verdict import (
        ComparisonResult,
        ExactResult,
        HttpResult,
        KselftestResult,
        LadderResult,
        PingResult,
        Result,
        TrafficResult,
        ValuesResult,
        Verdict,
    )
    from pytest_pinet.session.exact_gate import ExactGate
    from pytest_pinet.session.fixtures import Tune
    from pytest_pinet.session.gate import Gate
    from pytest_pinet.version import __version__

__all__ = [
    "Bitrate",
    "BuildError",
    "BuildMismatch",
    "CapabilityError",
    "ChangedBuildError",
    "ComparisonResult",
    "ConfigError",
    "ConsoleError",
    "CoordinatorError",
    "Direction",
    "DroppedLink",
    "ExactGate",
    "ExactResult",
    "Gate",
    "HttpResult",
    "Inconclusive",
    "InvalidMeasurement",
    "KernelError",
    "KselftestResult",
    "LabError",
    "LadderResult",
    "LeaseError",
    "Limit",
    "Link",
    "LinkError",
    "OutputError",
    "PinetError",
    "PingResult",
    "PowerError",
    "QuarantineError",
    "Result",
    "ShutdownError",
    "SshError",
    "SwitchError",
    "TagsLostError",
    "ToolError",
    "TrafficError",
    "TrafficResult",
    "Tune",
    "UnfitBuildError",
    "UnsupportedError",
    "ValuesResult",
    "Verdict",
    "__version__",
    "doing",
]

if not TYPE_CHECKING:  # with a visible __getattr__, a type checker would accept every name
    # All other public names are in pytest_pinet.errors.
    _MODULES = {
        "pytest_pinet.session.gate": ("Gate",),
        "pytest_pinet.session.exact_gate": ("ExactGate",),
        "pytest_pinet.session.fixtures": ("Tune",),
        "pytest_pinet.lab.link.link": ("Link",),
        "pytest_pinet.model.verdict": (
            "ComparisonResult",
            "ExactResult",
            "HttpResult",
            "KselftestResult",
            "LadderResult",
            "PingResult",
            "Result",
            "TrafficResult",
            "ValuesResult",
            "Verdict",
        ),
        "pytest_pinet.model.limits": ("Limit",),
        "pytest_pinet.model.quantities": ("Bitrate",),
        "pytest_pinet.model.traffic": ("Direction",),
        "pytest_pinet.execution.trace": ("doing",),
        "pytest_pinet.version": ("__version__",),
    }

    def __getattr__(name: str) -> object:
        """Import a public name when it is first used."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        module = next((module for module, names in _MODULES.items() if name in names), "pytest_pinet.errors")
        found = globals()[name] = getattr(import_module(module), name)
        return found

    def __dir__() -> list[str]:
        """Return the public names, for completion."""
        return __all__
