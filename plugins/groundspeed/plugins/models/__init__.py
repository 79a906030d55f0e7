"""Reference workloads in plain torch, named as targets: ``target = "groundspeed.plugins.models.training:gpt"``."""
