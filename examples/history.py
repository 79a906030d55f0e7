"""The history of the example: what each commit does, as edits of files.

A commit is a title, a body and a function from the files before to the files after. The ordinary ones keep the work of
a training step, of a request and of the memory they hold as it is. The three planted ones each change one of them and
leave the other two alone: they touch other files, and what they add is real work or real tensors in proportion to the
size that is asked for.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

Files = dict[str, str]
Edit = Callable[[Files], Files]
SOURCE = Path(__file__).parent / "tinygpt"
BENCHMARKS = ("groundspeed.toml", "benchmarks/")


@dataclass(frozen=True)
class Commit:
    """``plant`` names what it changes: "training", "memory", "inference", or nothing."""

    title: str
    body: str
    edit: Edit
    plant: str = ""


@dataclass(frozen=True)
class Plan:
    """Where the planted commits stand (index in the history, from 0) and how large each is (0.2: a fifth)."""

    places: dict[str, int]
    sizes: dict[str, float]


def default_plan(commits: int) -> Plan:
    """The plan when no seed is given."""
    places = {"memory": 0.3, "training": 0.55, "inference": 0.75}
    return Plan(
        {name: max(3, round(share * commits)) for name, share in places.items()},
        {"training": 0.20, "memory": 0.20, "inference": 0.20},
    )


def seeded_plan(commits: int, seed: int) -> Plan:
    """Other places and sizes between 15 and 30 %, the same for the same seed."""
    rng = random.Random(seed)  # noqa: S311 - variety, not secrecy
    gap = 3 if commits >= 16 else 2
    while True:
        chosen = sorted(rng.sample(range(3, commits - 2), 3))
        if all(b - a >= gap for a, b in itertools.pairwise(chosen)):
            break
    rng.shuffle(chosen)
    names = ("training", "memory", "inference")
    return Plan(dict(zip(names, chosen, strict=True)), {name: round(rng.uniform(0.15, 0.30), 3) for name in names})


def build(commits: int, plan: Plan | None) -> list[tuple[Commit, Files]]:
    """The commits in order, each with all files after it; without a plan nothing is planted.

    Raises ValueError when the history is too short to tell changes apart or longer than there are commits to tell.
    """
    planted = {} if plan is None else {place: _plant(name, plan.sizes[name]) for name, place in plan.places.items()}
    ordinary = [_START, *_ORDINARY]
    if not 10 <= commits <= len(ordinary) + len(planted):
        raise ValueError(f"the example has between 10 and {len(ordinary) + len(planted)} commits, not {commits}")
    files = _initial(plan)
    rest = iter(ordinary)
    history = []
    for index in range(commits):
        commit = planted.get(index) or next(rest)
        files = commit.edit(files)
        history.append((commit, {k: v for k, v in files.items() if not k.startswith("later:")}))
    return history


def _initial(plan: Plan | None) -> Files:
    files = {
        str(path.relative_to(SOURCE)): path.read_text(encoding="utf-8")
        for path in sorted(SOURCE.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    if plan is not None:
        files = _replace("benchmarks/inference.py", "PROMPT = 50", f"PROMPT = {_prompt(plan.sizes['inference'])}")(
            files
        )
    return {("later:" + k if k.startswith(BENCHMARKS) else k): v for k, v in files.items()}


# --- edits ------------------------------------------------------------------------------------------------------------


def _replace(path: str, old: str, new: str) -> Edit:
    def edit(files: Files) -> Files:
        if files[path].count(old) != 1:
            raise AssertionError(f"{path} should hold this once: {old!r}")
        return {**files, path: files[path].replace(old, new)}

    return edit


def _add(path: str, text: str) -> Edit:
    return lambda files: {**files, path: dedent(text).lstrip()}


def _append(path: str, text: str) -> Edit:
    return lambda files: {**files, path: files[path].rstrip("\n") + "\n" + dedent(text)}


def _all(*edits: Edit) -> Edit:
    def edit(files: Files) -> Files:
        for one in edits:
            files = one(files)
        return files

    return edit


def _same(files: Files) -> Files:
    return files


def _with_benchmarks(files: Files) -> Files:
    return {k.removeprefix("later:"): v for k, v in files.items()}


def _split_attention(files: Files) -> Files:
    """Move the class to a module of its own, as it is."""
    head, _, rest = files["tinygpt/model.py"].partition("class Attention")
    attention, _, blocks = rest.partition("class Block")
    imports = head.replace('"""The transformer."""', '"""Attention."""').replace(
        "from torch.nn import functional as F\n", ""
    )
    model = head.replace("import math\n\n", "").replace(
        "from tinygpt.config", "from tinygpt.attention import Attention\nfrom tinygpt.config"
    )
    return {
        **files,
        "tinygpt/attention.py": imports + "class Attention" + attention.rstrip() + "\n",
        "tinygpt/model.py": model + "class Block" + blocks,
    }


# --- the planted commits ----------------------------------------------------------------------------------------------

FORWARD_FIXED, FORWARD_ROW = 0.06, 0.0146
"""A pass without gradient over ``rows`` of the 16 sequences costs 0.06 + 0.0146 x rows of a training step."""
PADDED_SHARE = 0.9
"""A request without padding saves 0.9 of the padded part of the context of 64."""
PEAK_BYTES = 14_700_000
"""Peak of a training step of the memory suite before the windows."""
WINDOW_BYTES = 33 * 8


def _prompt(size: float) -> int:
    return round(64 * (1 - size / PADDED_SHARE))


def _plant(name: str, size: float) -> Commit:
    return {"training": _slow_training, "memory": _more_memory, "inference": _faster_inference}[name](size)


def _slow_training(size: float) -> Commit:
    rows = min(16, max(1, round((size - FORWARD_FIXED) / FORWARD_ROW)))
    return Commit(
        "Report the loss after each update",
        "The loss that a step returns is of the weights before it. To see what an update\n"
        "brought, look at part of the batch once more with the new weights.",
        _all(
            _replace(
                "tinygpt/trainer.py",
                '"""One step of training, and the loop around it."""\n\nimport torch\n\n'
                "from tinygpt.adam import Adam\nfrom tinygpt.model import TinyGPT\n",
                '"""One step of training, and the loop around it."""\n\nimport torch\n\n'
                f"from tinygpt.adam import Adam\nfrom tinygpt.model import TinyGPT\n\nWATCHED = {rows}\n"
                '"""Rows of a batch that are looked at again after the update."""\n',
            ),
            _replace(
                "tinygpt/trainer.py", "        self.steps = 0\n", "        self.steps = 0\n        self.gain = 0.0\n"
            ),
            _replace(
                "tinygpt/trainer.py",
                "        self.steps += 1\n",
                "        self.steps += 1\n"
                "        with torch.no_grad():\n"
                "            after = self.model.loss(tokens[:WATCHED], targets[:WATCHED])\n"
                "        self.gain = loss.item() - after.item()\n",
            ),
        ),
        "training",
    )


def _more_memory(size: float) -> Commit:
    windows = round(size * PEAK_BYTES / WINDOW_BYTES)
    return Commit(
        "Cut the first windows of a corpus ahead of time",
        "Most batches then need no slicing while a step waits for them.",
        _all(
            _replace(
                "tinygpt/data.py",
                "import torch\n",
                f'import torch\n\nREADY = {windows}\n"""Windows that are kept ready in memory."""\n',
            ),
            _replace(
                "tinygpt/data.py",
                "        self.length = length\n",
                "        self.length = length\n        self.ready = tokens.unfold(0, length + 1, 1)[:READY].clone()\n",
            ),
            _replace(
                "tinygpt/data.py",
                "        return self.tokens[start : start + self.length + 1]\n",
                "        if start < len(self.ready):\n"
                "            return self.ready[start]\n"
                "        return self.tokens[start : start + self.length + 1]\n",
            ),
        ),
        "memory",
    )


def _faster_inference(size: float) -> Commit:
    del size  # it follows from the length of the benchmark's prompts
    return Commit(
        "Answer short prompts without padding",
        "The mask makes positions look back only, so what follows a prompt never mattered.",
        _all(
            _replace(
                "tinygpt/model.py",
                "        length = tokens.shape[1]\n"
                "        padded = F.pad(tokens, (0, self.config.context - length))\n"
                "        logits = self(padded)\n"
                "        return logits[:, length - 1].argmax(dim=-1)\n",
                "        logits = self(tokens)\n        return logits[:, -1].argmax(dim=-1)\n",
            ),
        ),
        "inference",
    )


# --- the ordinary commits ---------------------------------------------------------------------------------------------

_START = Commit("Start with a model, a trainer and a corpus", "", _same)

_ORDINARY = (
    Commit(
        "Read a text in one place",
        "",
        _all(
            _append(
                "tinygpt/data.py",
                '''

                def read(path: str) -> tuple[torch.Tensor, list[str]]:
                    """The tokens of a text, and the letter that each stands for."""
                    with open(path, encoding="utf-8") as file:
                        text = file.read()
                    letters = sorted(set(text))
                    return torch.tensor([letters.index(letter) for letter in text]), letters
                ''',
            ),
            _replace(
                "tinygpt/train.py",
                '    with open(sys.argv[1], encoding="utf-8") as file:\n'
                "        text = file.read()\n"
                "    letters = sorted(set(text))\n"
                "    tokens = torch.tensor([letters.index(letter) for letter in text])\n",
                "    tokens, letters = read(sys.argv[1])\n",
            ),
            _replace("tinygpt/train.py", "import Corpus\n", "import Corpus, read\n"),
        ),
    ),
    Commit(
        "Benchmark training, inference and memory",
        "groundspeed.toml says what is measured; the benchmarks use nothing but torch.",
        _with_benchmarks,
    ),
    Commit(
        "Save and load checkpoints",
        "",
        _add(
            "tinygpt/checkpoint.py",
            '''
            """A model on disk."""

            from dataclasses import asdict

            import torch

            from tinygpt.config import ModelConfig
            from tinygpt.model import TinyGPT


            def save(model: TinyGPT, path: str) -> None:
                torch.save({"config": asdict(model.config), "weights": model.state_dict()}, path)


            def load(path: str) -> TinyGPT:
                kept = torch.load(path, weights_only=True)
                model = TinyGPT(ModelConfig(**kept["config"]))
                model.load_state_dict(kept["weights"])
                return model
            ''',
        ),
    ),
    Commit("Split attention out of the model", "Nothing changes but where it stands.", _split_attention),
    Commit(
        "Write text that continues a prompt",
        "",
        _add(
            "tinygpt/generate.py",
            '''
            """Continue a prompt."""

            import torch

            from tinygpt.model import TinyGPT


            def generate(model: TinyGPT, prompt: torch.Tensor, count: int) -> torch.Tensor:
                """``prompt`` (rows, length) with ``count`` more tokens in each row."""
                model.eval()
                tokens = prompt
                for _ in range(count):
                    following = model.next_token(tokens[:, -model.config.context :])
                    tokens = torch.cat([tokens, following[:, None]], dim=1)
                return tokens
            ''',
        ),
    ),
    Commit(
        "Explain the parts in the README",
        "",
        _append(
            "README.md",
            """
            ## Parts

            `model.py` holds the transformer, `data.py` turns a text into batches,
            `trainer.py` does one step of training.
            """,
        ),
    ),
    Commit(
        "Warm the learning rate up",
        "",
        _all(
            _replace(
                "tinygpt/trainer.py",
                "        loss.backward()\n",
                "        loss.backward()\n        self._set_rate()\n",
            ),
            _replace(
                "tinygpt/trainer.py",
                "    def step(self,",
                "    def _set_rate(self) -> None:\n"
                '        """Rise over the first hundred steps."""\n'
                "        self.optimizer.rate = self.rate * min(1.0, (self.steps + 1) / 100)\n\n"
                "    def step(self,",
            ),
        ),
    ),
    Commit(
        "Test that a fresh model knows nothing",
        "",
        _add(
            "tests/test_model.py",
            """
            import math

            import torch

            from tinygpt.config import ModelConfig
            from tinygpt.model import TinyGPT


            def test_the_loss_of_a_fresh_model_is_that_of_guessing():
                torch.manual_seed(0)
                config = ModelConfig()
                tokens = torch.randint(config.vocabulary, (4, 32))
                loss = TinyGPT(config).loss(tokens, tokens.roll(1, 1))
                assert abs(loss.item() - math.log(config.vocabulary)) < 0.5
            """,
        ),
    ),
    Commit(
        "Name the norms of a block by what they come before",
        "",
        lambda files: {
            **files,
            "tinygpt/model.py": files["tinygpt/model.py"]
            .replace("self.norm1", "self.before_attention")
            .replace("self.norm2", "self.before_mlp"),
        },
    ),
    Commit(
        "Look letters up in a mapping",
        "Reading a long text took minutes.",
        _replace(
            "tinygpt/data.py",
            "    return torch.tensor([letters.index(letter) for letter in text]), letters\n",
            "    place = {letter: index for index, letter in enumerate(letters)}\n"
            "    return torch.tensor([place[letter] for letter in text]), letters\n",
        ),
    ),
    Commit(
        "Measure the loss on text that was held out",
        "",
        _add(
            "tinygpt/evaluate.py",
            '''
            """How well does a model know a text?"""

            import torch

            from tinygpt.data import Corpus
            from tinygpt.model import TinyGPT


            @torch.no_grad()
            def held_out_loss(model: TinyGPT, corpus: Corpus, batches: int = 20) -> float:
                generator = torch.Generator().manual_seed(1)
                losses = [model.loss(*corpus.batch(16, generator)).item() for _ in range(batches)]
                return sum(losses) / len(losses)
            ''',
        ),
    ),
    Commit(
        "Take the number of steps from the command line",
        "",
        _all(
            _replace("tinygpt/train.py", "import sys\n", "import argparse\n"),
            _replace(
                "tinygpt/train.py",
                "    tokens, letters = read(sys.argv[1])\n",
                "    parser = argparse.ArgumentParser(description=__doc__)\n"
                '    parser.add_argument("text")\n'
                '    parser.add_argument("--steps", type=int, default=1000)\n'
                "    options = parser.parse_args()\n"
                "    tokens, letters = read(options.text)\n",
            ),
            _replace("tinygpt/train.py", "range(1000)", "range(options.steps)"),
        ),
    ),
    Commit(
        "Count the parameters of a model",
        "",
        _replace(
            "tinygpt/model.py",
            "    def features(self,",
            "    def size(self) -> int:\n"
            '        """Number of parameters."""\n'
            "        return sum(parameter.numel() for parameter in self.parameters())\n\n"
            "    def features(self,",
        ),
    ),
    Commit(
        "Say how to benchmark",
        "",
        _append(
            "README.md",
            """
            ## Speed

            Every commit is measured: `groundspeed.toml` says what, `benchmarks/` how.
            """,
        ),
    ),
    Commit(
        "Keep the best model while training",
        "",
        _add(
            "tinygpt/best.py",
            '''
            """Remember the best weights seen."""

            from tinygpt.checkpoint import save
            from tinygpt.model import TinyGPT


            class Best:
                """Saves a model when its loss is the lowest so far."""

                def __init__(self, path: str) -> None:
                    self.path = path
                    self.loss = float("inf")

                def offer(self, model: TinyGPT, loss: float) -> bool:
                    if loss >= self.loss:
                        return False
                    self.loss = loss
                    save(model, self.path)
                    return True
            ''',
        ),
    ),
    Commit(
        "Release 0.2.0",
        "",
        _replace("pyproject.toml", 'version = "0.1.0"', 'version = "0.2.0"'),
    ),
    Commit(
        "Say what the numbers of a configuration mean",
        "",
        _replace(
            "tinygpt/config.py",
            '"""``vocabulary`` counts tokens, ``context`` is the longest sequence."""',
            '"""``vocabulary`` counts tokens, ``context`` is the longest sequence, ``width`` a token\'s numbers."""',
        ),
    ),
    Commit(
        "Test that generating continues a prompt",
        "",
        _add(
            "tests/test_generate.py",
            """
            import torch

            from tinygpt.config import ModelConfig
            from tinygpt.generate import generate
            from tinygpt.model import TinyGPT


            def test_generating_keeps_the_prompt():
                prompt = torch.arange(6).view(2, 3)
                out = generate(TinyGPT(ModelConfig()), prompt, 4)
                assert out.shape == (2, 7)
                assert (out[:, :3] == prompt).all()
            """,
        ),
    ),
    Commit(
        "Prepare for a second release",
        "",
        _append("README.md", "\nNeeds Python 3.10 or later and PyTorch 2.6 or later.\n"),
    ),
)
