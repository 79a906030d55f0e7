"""What can go wrong between a suite's configuration and a running plugin.

PluginError            anything below
├── UnknownPlugin      no distribution offers that name
├── BrokenPlugin       found, but it does not load or does not keep the contract; says why
├── DuplicatePlugin    two distributions offer one name
├── VersionMismatch    the job was planned for another version of the plugin
└── ParamError         a parameter does not fit; names the plugin, the field and the allowed values
"""

from __future__ import annotations


class PluginError(Exception):
    """Base of the errors of this folder; its text says what to do."""


class UnknownPlugin(PluginError):
    """No distribution offers a plugin of that name."""


class BrokenPlugin(PluginError):
    """The plugin was found but cannot be used."""


class DuplicatePlugin(PluginError):
    """Two distributions offer one name."""


class VersionMismatch(PluginError):
    """The job was planned for another version of the plugin."""


class ParamError(PluginError):
    """A parameter is unknown or outside what the plugin allows."""
