"""Parameters are checked before anything runs, and an error says what would be right."""

from __future__ import annotations

import math

import pytest

from groundspeed.plugins import params
from groundspeed.plugins.errors import ParamError
from groundspeed.plugins.spi import Param

DECLARED = (
    Param("batch_size", "int", 8, minimum=1, maximum=64),
    Param("precision", "str", "fp32", choices=("fp32", "bf16")),
    Param("rate", "float", 1.0, minimum=0.0),
    Param("compile", "bool", False),
    Param("note", "str"),
)


def test_defaults_are_filled_in_in_the_order_of_declaration():
    resolved = params.resolve("training", DECLARED, {"precision": "bf16"})
    assert list(resolved.items()) == [("batch_size", 8), ("precision", "bf16"), ("rate", 1.0), ("compile", False)]


def test_an_int_passes_for_a_float_and_comes_back_as_one():
    assert params.resolve("p", DECLARED, {"rate": 2})["rate"] == 2.0
    assert isinstance(params.resolve("p", DECLARED, {"rate": 2})["rate"], float)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"batch_size": 0}, ["'training'", "'batch_size'", "an int from 1 to 64"]),
        ({"batch_size": 65}, ["'batch_size'", "65"]),
        ({"batch_size": True}, ["'batch_size'", "True"]),
        ({"batch_size": 8.0}, ["'batch_size'", "8.0"]),
        ({"batch_size": "8"}, ["'batch_size'", "'8'"]),
        ({"precision": "fp8"}, ["'precision'", "one of 'fp32', 'bf16'"]),
        ({"rate": math.nan}, ["'rate'", "a float of at least 0"]),
        ({"rate": -1}, ["'rate'", "a float of at least 0"]),
        ({"compile": 1}, ["'compile'", "true or false"]),
        ({"batchsize": 8}, ["no parameter 'batchsize'", "did you mean 'batch_size'?", "'precision'"]),
        ({"zzz": 8}, ["no parameter 'zzz'", "its parameters are"]),
    ],
)
def test_a_wrong_parameter_names_plugin_field_and_what_is_allowed(given, words):
    with pytest.raises(ParamError) as caught:
        params.resolve("training", DECLARED, given)
    for word in words:
        assert word in str(caught.value)
