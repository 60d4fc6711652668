"""Trainings of real frameworks as chains on a real Slurm, on the GPU of this machine.

    python benchmarks/presets/framework_chains.py --links 3 --limit-min 3 --grace 60 -o framework-chains.json

Needs the packages of Slurm, PyTorch, transformers, accelerate and lightning, but neither a cluster nor GRES: all chains
share one GPU. Each recipe trains a GPT-2 of random weights on an invented text. The successor of a link is submitted
before the end of the link, and waits until that has left. What is reported comes from the logs of the trainings:
``lost`` are steps that were trained after the checkpoint from which the next link resumed, ``saved`` is the time from
the warning until the checkpoint was complete, ``silent`` the time from the last step of a link to the first one of its
successor. ``loss`` is the mean of up to five steps before and after the hand-over.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from mirage.lab.real.lab_spec import LabSpec
from mirage.lab.real.private_cluster import PrivateCluster

COMMON = """
import os, sys, time, torch
from pathlib import Path

WIDTH, LAYERS, LENGTH, BATCH = SIZE
VOCABULARY = 8192
link, gpu = os.environ["MIRAGE_LINK"], torch.cuda.is_available()

def say(*words):
    print("@", link, f"{time.time():.3f}", *words, flush=True)

def stepped(step, loss):
    say("step", step, f"{float(loss):.4f}")

def size_of(path):
    path = Path(path)
    return sum(p.stat().st_size for p in ([path] if path.is_file() else path.rglob("*")) if p.is_file())

class Text(torch.utils.data.Dataset):
    def __len__(self):
        return 10**7
    def __getitem__(self, i):
        dice = torch.Generator().manual_seed(i)
        first, stride = torch.randint(VOCABULARY, (2,), generator=dice).tolist()
        ids = (first + (stride % 7) * torch.arange(LENGTH)) % VOCABULARY
        return {"input_ids": ids, "labels": ids}

def model():
    from transformers import GPT2Config, GPT2LMHeadModel
    torch.manual_seed(1)
    return GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, n_positions=LENGTH, n_embd=WIDTH, n_layer=LAYERS,
        n_head=WIDTH // 64, bos_token_id=0, eos_token_id=0))
say("start")
"""

HUGGING_FACE = (
    COMMON
    + """
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

class Log(TrainerCallback):
    def on_train_begin(self, args, state, control, **_):
        say("begins", state.global_step)
    def on_log(self, args, state, control, logs=None, **_):
        if "loss" in (logs or {}):
            stepped(state.global_step, logs["loss"])
    def on_save(self, args, state, control, **_):
        say("saved", state.global_step, size_of(f"{args.output_dir}/checkpoint-{state.global_step}"))

callbacks = [Log()]
if CALLBACK:
    from mirage.hooks import take_over, transformers_callback
    callbacks.insert(0, transformers_callback())
arguments = TrainingArguments("out", max_steps=10**6, per_device_train_batch_size=BATCH, logging_steps=1, bf16=gpu,
    save_strategy="no", save_total_limit=1, report_to=[], disable_tqdm=True, ignore_data_skip=True, learning_rate=3e-4,
    lr_scheduler_type="constant", enable_jit_checkpoint=not CALLBACK)
trainer = Trainer(model(), arguments, train_dataset=Text(), callbacks=callbacks)
if CALLBACK:
    take_over()
else:
    import subprocess
    subprocess.run(["mirage", "link", "takeover"], check=True, stdout=subprocess.DEVNULL)
last = get_last_checkpoint("out") if os.path.isdir("out") else None
trainer.train(resume_from_checkpoint=last)
say("leaves")
"""
)

LIGHTNING = (
    COMMON
    + """
import subprocess
import lightning
from lightning.pytorch.callbacks import Callback

class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = model()
    def training_step(self, batch, _):
        return self.model(**batch).loss
    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), 3e-4)

class Log(Callback):
    def on_train_start(self, trainer, module):
        say("begins", trainer.global_step)
    def on_train_batch_end(self, trainer, module, outputs, *_):
        stepped(trainer.global_step, outputs["loss"])
    def on_save_checkpoint(self, trainer, module, checkpoint):
        say("saves", trainer.global_step)

class Trainer(lightning.Trainer):
    def save_checkpoint(self, path, *args, **kwargs):
        super().save_checkpoint(path, *args, **kwargs)
        say("saved", self.global_step, size_of(path))

callbacks, resume = [Log()], None
if CALLBACK:
    from mirage.hooks import lightning_callback, take_over
    callbacks.insert(0, lightning_callback("stop.ckpt"))
trainer = Trainer(max_epochs=1, callbacks=callbacks, logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False, precision="bf16-mixed" if gpu else "32-true")
if CALLBACK:
    take_over()
    resume = "stop.ckpt" if os.path.exists("stop.ckpt") else None
else:
    subprocess.run(["mirage", "link", "takeover"], check=True, stdout=subprocess.DEVNULL)
trainer.fit(Module(), torch.utils.data.DataLoader(Text(), BATCH), ckpt_path=resume)
say("leaves")
"""
)

PLAIN = (
    COMMON
    + """
from mirage.hooks import progress, saved, should_stop, take_over

network = model().to("cuda" if gpu else "cpu")
optimizer = torch.optim.AdamW(network.parameters(), 3e-4)
compiled = torch.compile(network) if gpu else network
take_over()
step = 0
if os.path.exists("state.pt"):
    state = torch.load("state.pt", map_location=network.device)
    network.load_state_dict(state["model"]); optimizer.load_state_dict(state["optimizer"])
    step = state["step"]
    del state
say("begins", step)
text = Text()
while not should_stop():
    batch = torch.stack([text[step * BATCH + i]["input_ids"] for i in range(BATCH)]).to(network.device)
    with torch.autocast(network.device.type, torch.bfloat16, enabled=gpu):
        loss = compiled(input_ids=batch, labels=batch).loss
    loss.backward(); optimizer.step(); optimizer.zero_grad()
    step += 1
    stepped(step, loss)
    progress(step)
torch.save({"model": network.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, "state.part")
os.replace("state.part", "state.pt")
saved(step)
say("saved", step, size_of("state.pt"))
"""
)

SIZES = {
    "tiny": (64, 2, 32, 2),
    "124M": (768, 12, 512, 8),
    "350M": (1024, 24, 512, 8),
    "774M": (1280, 36, 512, 4),
}

RECIPES: dict[str, tuple[str, str, str, bool, str]] = {
    "hf-jit": ("hf", "torchrun --standalone --nproc-per-node 1 train.py", HUGGING_FACE, False, "350M"),
    "hf-callback": ("hf", "accelerate launch --num_processes 1 train.py", HUGGING_FACE, True, "350M"),
    "lightning-requeue": ("lightning", "srun python3 train.py", LIGHTNING, False, "124M"),
    "lightning-callback": ("lightning", "srun python3 train.py", LIGHTNING, True, "124M"),
    "torch-compile": ("python", "python3 train.py", PLAIN, True, "774M"),
}
"""Framework of the preset, command of the batch script, training, whether it uses hooks, size of the model."""


def run_chains(cluster: PrivateCluster, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Run one chain of every recipe to its end; returns figures from their logs."""
    command = folder / "bin" / "mirage"
    command.parent.mkdir(parents=True, exist_ok=True)
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m mirage "$@"\n')
    command.chmod(0o755)
    path = f"{command.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, **cluster.environment, "MIRAGE_HOME": str(folder / "home"), "PATH": path}
    names = options.recipes.split(",")
    for name in names:
        framework, line, code, callback, size = RECIPES[name]
        work = folder / name
        work.mkdir()
        size = "tiny" if options.tiny else size
        (work / "train.py").write_text(f"SIZE, CALLBACK = {SIZES[size]}, {callback}\n{code}")
        (work / "train.sh").write_text(f"#!/bin/bash\n#SBATCH -o train.log --open-mode=append\n{line}\n")
        subprocess.run(
            ["mirage", "submit", "--chain", name, "--framework", framework, "--links", str(options.links),
             "--ready-by-job", "--policy", f"lead:{options.lead / 3600}", "--grace", f"{options.grace}s",
             "--no-agent", "-n", "1", "-c", "2", "-J", name, "-t", str(options.limit_min), "train.sh"],
            env=environment, cwd=work, check=True,
        )  # fmt: skip
    with (folder / "agent.log").open("w") as log:
        agent = subprocess.Popen(["mirage", "agent", "run"], env=environment, cwd=folder, stderr=log)
        try:
            until = time.monotonic() + options.patience_s
            while time.monotonic() < until:
                done = subprocess.run(["mirage", "chain", "list", "--json"], env=environment, capture_output=True)
                if done.returncode == 0 and all(chain["state"] == "done" for chain in json.loads(done.stdout)):
                    break
                time.sleep(5)
        finally:
            agent.terminate()
            agent.wait(30)
    return {name: hand_overs((folder / name / "train.log").read_text()) for name in names}


def hand_overs(log: str) -> list[dict[str, Any]]:
    """What the log of a training shows of each hand-over, and of the last link's end."""
    found: dict[int, dict[str, Any]] = {}
    link = 0
    for line in log.splitlines():
        if words := re.fullmatch(r"@ (\d+) ([\d.]+) (\w+) ?(\S*) ?(\S*)", line):
            link, at_s = int(words[1]), float(words[2])
            of_link = found.setdefault(link, {"steps": [], "saves": [], "start_s": at_s})
            if words[3] == "step":
                of_link["steps"].append((int(words[4]), at_s, float(words[5])))
            elif words[3] == "begins":
                of_link["begins"] = (int(words[4]), at_s)
            elif words[3] == "saved":
                of_link["saves"].append((int(words[4]), at_s, int(words[5])))
        elif words := re.search(r"mirage: (\d+):(\d+):(\d+) \w+ has reached", line):
            hour, minute, second = map(int, words.groups())
            moment = time.localtime()
            warned_s = time.mktime((*moment[:3], hour, minute, second, 0, 0, -1))
            if link:
                found[link].setdefault("warned_s", warned_s)
    return [_figures(found[each], found.get(each + 1)) for each in sorted(found)]


def _figures(before: dict[str, Any], after: dict[str, Any] | None) -> dict[str, Any]:
    steps, saves, warned_s = before["steps"], before["saves"], before.get("warned_s")
    figures: dict[str, Any] = {
        "first_step": steps[0][0] if steps else None,
        "last_step": steps[-1][0] if steps else None,
        "step_s": (steps[-1][1] - steps[0][1]) / (len(steps) - 1) if len(steps) > 1 else None,
        "load_s": before["begins"][1] - before["start_s"] if "begins" in before else None,
        "saved_step": saves[-1][0] if saves else None,
        "saved_s": saves[-1][1] - warned_s if saves and warned_s else None,
        "saved_gb": saves[-1][2] / 1e9 if saves else None,
    }
    if after is not None and after["steps"] and steps:
        resumed = after["begins"][0]
        figures |= {
            "resumed_at": resumed,
            "lost": steps[-1][0] - resumed,
            "silent_s": after["steps"][0][1] - steps[-1][1],
            "together": after["steps"][0][1] < steps[-1][1],
            "loss": (_mean(steps[-5:]), _mean(after["steps"][:5])),
        }
    return figures


def _mean(steps: list[tuple[int, float, float]]) -> float:
    return sum(loss for _, _, loss in steps) / len(steps)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipes", default=",".join(RECIPES))
    parser.add_argument("--links", type=int, default=3)
    parser.add_argument("--limit-min", type=int, default=3, help="time limit of a link, minutes")
    parser.add_argument("--lead", type=float, default=90, help="from the submission of the successor to the end, s")
    parser.add_argument("--grace", type=int, default=60, help="from the warning to the end of a link, s")
    parser.add_argument("--tiny", action="store_true", help="models of a few thousand weights, without a GPU")
    parser.add_argument("--patience-s", type=float, default=560, help="give up after this time")
    parser.add_argument("--keep", type=Path, help="work in this folder and leave the logs there")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mirage-frameworks-") as name:
        folder = options.keep or Path(name)
        folder.mkdir(exist_ok=True)
        cluster = PrivateCluster(LabSpec(directory=folder / "lab", nodes=1, gpus=0))
        cluster.up()
        try:
            found = run_chains(cluster, folder, options)
        finally:
            cluster.purge()
    for recipe, links in found.items():
        for number, figures in enumerate(links, 1):
            print(recipe, number, json.dumps(figures))
    if options.output:
        options.output.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
