"""Other tools' result formats: pure parsers and writers. Bytes or lines in, frozen dataclasses out.

Each module knows one tool and gives ``NAME``, ``sniff(head) -> bool`` and ``parse(document) -> Iterator[Item]``.
``detect`` finds the module by content. Nothing here touches a database, the network or a clock.
"""
