"""``groundspeed doctor``: whether a node is fit to measure on, and what to do where it is not.

``gather`` reads this machine (or ``captures`` files of one) into an inventory; ``checks.examine`` is pure.
"""
