"""The reference models against torchvision's and transformers': the same weights give the same answers."""

from __future__ import annotations

import re
import sys

import torch

from groundspeed.plugins.models.resnet import ResNet
from groundspeed.plugins.models.transformer import Bert, Gpt, VisionTransformer


def difference(ours, theirs):
    return float((ours.double() - theirs.double()).norm() / theirs.double().norm())


def load(model, state):
    missing = model.load_state_dict(state, strict=False)
    assert not missing.unexpected_keys, missing.unexpected_keys
    assert not missing.missing_keys, missing.missing_keys
    return model.eval()


def resnet():
    import torchvision

    theirs = torchvision.models.resnet50(weights=None).eval()
    x = torch.randn(2, 3, 224, 224)
    return difference(load(ResNet(), theirs.state_dict())(x), theirs(x))


def renamed(state, rules):
    found = {}
    for name, value in state.items():
        for pattern, replacement in rules:
            name = re.sub(pattern, replacement, name)  # noqa: PLW2901
        found[name] = value
    return found


def vit():
    import torchvision

    theirs = torchvision.models.vit_b_16(weights=None).eval()
    torch.nn.init.normal_(theirs.heads.head.weight)
    rules = [("class_token", "token"), ("conv_proj", "patches"), ("encoder.pos_embedding", "position"),
             (r"encoder.layers.encoder_layer_(\d+)", r"stack.blocks.\1"), ("ln_1", "norm1"), ("ln_2", "norm2"),
             ("self_attention.in_proj_", "attention.qkv."), ("self_attention.out_proj", "attention.out"),
             ("mlp.0", "wide"), ("mlp.3", "narrow"), ("encoder.ln", "norm"), ("heads.head", "head")]  # fmt: skip
    x = torch.randn(2, 3, 224, 224)
    return difference(load(VisionTransformer(), renamed(theirs.state_dict(), rules))(x), theirs(x))


def bert():
    import transformers

    theirs = transformers.BertModel(transformers.BertConfig()).eval()
    state, ours = theirs.state_dict(), {}
    for layer in range(12):
        for kind in ("weight", "bias"):
            parts = [state.pop(f"encoder.layer.{layer}.attention.self.{p}.{kind}") for p in ("query", "key", "value")]
            ours[f"stack.blocks.{layer}.attention.qkv.{kind}"] = torch.cat(parts)
    rules = [("embeddings.word_embeddings", "words"), ("embeddings.position_embeddings", "positions"),
             ("embeddings.token_type_embeddings", "segments"), ("embeddings.LayerNorm", "norm"),
             ("pooler.dense", "pooler"), (r"encoder.layer", "stack.blocks"), ("attention.output.dense", "attention.out"),
             ("attention.output.LayerNorm", "norm1"), ("intermediate.dense", "wide"), (r"\.output.dense", ".narrow"),
             (r"\.output.LayerNorm", ".norm2")]  # fmt: skip
    state = {k: v for k, v in state.items() if "position_ids" not in k and "token_type_ids" not in k}
    tokens = torch.randint(0, 30522, (2, 64))
    return difference(load(Bert(), {**ours, **renamed(state, rules)})(tokens), theirs(tokens).pooler_output)


def gpt():
    import transformers

    theirs = transformers.GPT2LMHeadModel(transformers.GPT2Config()).eval()
    rules = [("transformer.wte", "words"), ("transformer.wpe", "positions"), ("transformer.h", "stack.blocks"),
             ("transformer.ln_f", "norm"), ("attn.c_attn", "attention.qkv"), ("attn.c_proj", "attention.out"),
             ("ln_1", "norm1"), ("ln_2", "norm2"), ("mlp.c_fc", "wide"), ("mlp.c_proj", "narrow")]  # fmt: skip
    state = {
        k: v
        for k, v in theirs.state_dict().items()
        if "lm_head" not in k and not k.endswith((".attn.bias", "masked_bias"))
    }
    transposed = {k: v.t() if ("c_" in k and k.endswith("weight")) else v for k, v in state.items()}
    tokens = torch.randint(0, 50257, (2, 64))
    return difference(load(Gpt(), renamed(transposed, rules))(tokens), theirs(tokens).logits)


if __name__ == "__main__":
    with torch.inference_mode():
        for check in (resnet, vit, bert, gpt):
            try:
                sys.stdout.write(f"{check.__name__}: relative difference {check():.2e}\n")
            except Exception as error:  # noqa: BLE001 - each model is told by itself
                sys.stdout.write(f"{check.__name__}: {type(error).__name__} {str(error)[:600]}\n")
            sys.stdout.flush()
