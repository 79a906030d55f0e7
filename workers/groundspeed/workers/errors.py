"""What can go wrong in a worker, each with what happened and what to do.

WorkerError
├── SettingsInvalid      settings or folders that cannot be used; the worker does not start (exit status 2)
├── ServiceUnavailable   the service cannot be reached or answers 5xx; tried again later
├── ServiceRefused       the service answered 4xx: trying again would not help
│   └── ProtocolMismatch     worker and service come from releases that do not understand each other
├── JobError             this job cannot go on here; ``transient`` says whether another try may help
│   ├── CheckoutFailed       the repository or the revision cannot be had
│   ├── BuildFailed          the revision does not build: a result of the revision, with the end of its log
│   ├── PartFailed           this node cannot do its part in a job of several nodes
│   └── TrustRefused         untrusted code and no working sandbox
├── SpoolFull            no room to keep a result safe
└── Stopped              the worker was told to stop, or the lease is gone
"""

from __future__ import annotations


class WorkerError(Exception):
    """Base of all; the text is meant for people."""


class SettingsInvalid(WorkerError):
    pass


class ServiceUnavailable(WorkerError):
    pass


class ServiceRefused(WorkerError):
    """``status`` is the HTTP status, ``code`` the stable short code of the problem."""

    def __init__(self, message: str, *, status: int, code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class ProtocolMismatch(ServiceRefused):
    pass


class JobError(WorkerError):
    transient = False


class CheckoutFailed(JobError):
    def __init__(self, message: str, *, transient: bool = False) -> None:
        super().__init__(message)
        self.transient = transient


class PartFailed(JobError):
    transient = True


class BuildFailed(JobError):
    """``log_tail`` is the end of the build's output."""

    def __init__(self, message: str, *, log_tail: str = "") -> None:
        super().__init__(message)
        self.log_tail = log_tail


class TrustRefused(JobError):
    pass


class SpoolFull(WorkerError):
    pass


class Stopped(WorkerError):
    """``reason`` is "shutdown", "cancel" or "lost"."""

    def __init__(self, reason: str, message: str = "") -> None:
        super().__init__(message or reason)
        self.reason = reason
