"""Writes a Llama of random weights, 2 layers and 8 heads, with a tokenizer trained on made-up words: 1.4 MB.

Needs numpy, safetensors and tokenizers, which every vLLM environment has. The same at every run.
"""

# runs inside an environment with vLLM, which this one has not
# mypy: disable-error-code="import-not-found"

import json
import random
import sys
from pathlib import Path
from typing import Any

import numpy
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

VOCABULARY, HIDDEN, INNER, LAYERS, HEADS = 1024, 64, 256, 2, 8
HEAD = 32  # the least that vLLM's attention on the CPU can do
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": VOCABULARY,
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": HEADS,
    "head_dim": HEAD,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "attention_bias": False,
    "mlp_bias": False,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
    "torch_dtype": "float32",
}
TOKENIZER_CONFIG = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "bos_token": "<s>",
    "eos_token": "</s>",
    "pad_token": "<pad>",
    "model_max_length": 512,
    "chat_template": "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:",
}


def tokenizer() -> Any:
    """A byte-level BPE trained on words made of random syllables."""
    chance = random.Random(0)
    syllables = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]
    words = ["".join(chance.choices(syllables, k=chance.randint(1, 3))) for _ in range(4000)]
    made = Tokenizer(models.BPE(unk_token=None))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<pad>", "<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    made.train_from_iterator([" ".join(words)], trainer)
    return made


def weights() -> dict[str, Any]:
    """Small random matrices under the names that Llama checkpoints have."""
    chance = numpy.random.default_rng(0)

    def matrix(*shape: int) -> Any:
        return (chance.standard_normal(shape) * 0.05).astype(numpy.float32)

    norm = numpy.ones(HIDDEN, numpy.float32)
    found = {
        "model.embed_tokens.weight": matrix(VOCABULARY, HIDDEN),
        "model.norm.weight": norm,
        "lm_head.weight": matrix(VOCABULARY, HIDDEN),
    }
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        found[prefix + "input_layernorm.weight"] = norm.copy()
        found[prefix + "post_attention_layernorm.weight"] = norm.copy()
        for name in ("q_proj", "k_proj", "v_proj"):
            found[f"{prefix}self_attn.{name}.weight"] = matrix(HEADS * HEAD, HIDDEN)
        found[prefix + "self_attn.o_proj.weight"] = matrix(HIDDEN, HEADS * HEAD)
        found[prefix + "mlp.gate_proj.weight"] = matrix(INNER, HIDDEN)
        found[prefix + "mlp.up_proj.weight"] = matrix(INNER, HIDDEN)
        found[prefix + "mlp.down_proj.weight"] = matrix(HIDDEN, INNER)
    return found


def main() -> None:
    """Write the model into the folder named on the command line."""
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    tokenizer().save(str(out / "tokenizer.json"))
    for name, content in (
        ("config.json", CONFIG),
        ("tokenizer_config.json", TOKENIZER_CONFIG),
        ("generation_config.json", {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}),
    ):
        (out / name).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    # last: its presence says that the model is whole
    save_file(weights(), str(out / "model.safetensors"), metadata={"format": "pt"})


if __name__ == "__main__":
    main()
