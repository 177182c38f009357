"""A trained model on disk: weights and vocabulary as safetensors, its shape as JSON; no code."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from core.errors import DataError
from core.experiments.forecast.examples import Vocabulary
from core.experiments.forecast.network import EncoderConfig, Network
from core.experiments.forecast.training import ForecastTrainer
from core.storage.files import replacing

FORMAT = "midchart-forecast-1"


def save_model(folder: Path, name: str, trainer: ForecastTrainer, vocabulary: Vocabulary) -> None:
    """Write ``<name>.safetensors`` and ``<name>.json``, each whole or not at all."""
    from safetensors.torch import save_file

    network = trainer.network
    tensors = {f"network.{k}": v for k, v in network.state_dict().items()}
    tensors["vocabulary.first"] = torch.from_numpy(vocabulary.first)
    codes = sorted(vocabulary.edges)
    tensors["vocabulary.codes"] = torch.tensor(codes, dtype=torch.int64)
    tensors["vocabulary.counts"] = torch.tensor([len(vocabulary.edges[c]) for c in codes])
    every = [vocabulary.edges[code] for code in codes]
    tensors["vocabulary.edges"] = torch.from_numpy(
        np.concatenate(every) if every else np.empty(0, np.float32)
    )
    card = {
        "format": FORMAT,
        "encoder": asdict(trainer.config),
        "recipe": asdict(trainer.recipe),
        "question": trainer.question,
        "texts": list(trainer.texts) if network.gate is not None else [],
        "hash": asdict(network.gate.model.config.hashing) if network.gate is not None else None,
        "size": vocabulary.size,
        "best_epoch": trainer.best_epoch.epoch,
    }
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / f"{name}.safetensors") as fresh:
        save_file({k: v.detach().contiguous().cpu().clone() for k, v in tensors.items()}, fresh)
    with replacing(folder / f"{name}.json") as fresh:
        fresh.write_text(json.dumps(card, ensure_ascii=False, indent=1) + "\n", "utf-8")


def load_model(folder: Path, name: str) -> tuple[Network, Vocabulary]:
    """The model and vocabulary that :func:`save_model` wrote, ready to be asked, on the CPU.

    Raises DataError, one line, where files are missing or do not fit each other.
    """
    from safetensors.torch import load_file

    place = folder / f"{name}.safetensors"
    try:
        card: dict[str, Any] = json.loads((folder / f"{name}.json").read_text("utf-8"))
        if card["format"] != FORMAT:
            raise ValueError(f"format {card['format']!r}")
        tensors = load_file(place)
        config = EncoderConfig(**card["encoder"])
        network = Network(config, card["question"], tuple(card["texts"]))
        network.load_state_dict(
            {k.removeprefix("network."): v for k, v in tensors.items() if k.startswith("network.")}
        )
        # A frozen gate's table came with the weights.
        if network.gate is not None and card["recipe"]["gate_training"] == "frozen":
            network.gate.requires_grad_(False)
            network.gate.joint = False
    except OSError as error:
        raise DataError(str(place), None, f"cannot be read ({error.strerror})") from None
    except Exception as error:  # noqa: BLE001 - a file made by hand may break anywhere
        reason = f"is no forecast model of this version ({type(error).__name__})"
        raise DataError(str(place), None, reason, "run the forecast again") from None
    return network.eval(), _vocabulary(tensors, card["size"])


def _vocabulary(tensors: dict[str, Tensor], size: int) -> Vocabulary:
    counts = tensors["vocabulary.counts"].tolist()
    edges = [part.numpy() for part in tensors["vocabulary.edges"].split(counts)] if counts else []
    codes = tensors["vocabulary.codes"].tolist()
    return Vocabulary(
        tensors["vocabulary.first"].numpy(), dict(zip(codes, edges, strict=True)), size
    )
