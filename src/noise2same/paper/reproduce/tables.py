"""Tables 1, 2 and 3: rows of figures from the cells, the paper's beside them, as Markdown and as a picture."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from noise2same.paper.reproduce import drawing
from noise2same.paper.reproduce.protocols import OUR_ROWS, PROTOCOLS
from noise2same.paper.reproduce.published import TABLE1, TABLE2, published
from noise2same.paper.reproduce.store import Result, Store

SCORES = {"psnr": "plain PSNR", "psnr_minmax": "min-max PSNR", "psnr_affine": "affine-fit PSNR"}


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose first column is text and whose others are numbers."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def number(value: float | None, digits: int = 2) -> str:
    """A number for a table, or a dash."""
    return "–" if value is None else f"{value:.{digits}f}"


def percent(share: float | None) -> str:
    """A share for a table, or a dash."""
    return "–" if share is None else f"{share:.1%}"


def row_name(method: str, result: Result) -> str:
    """A method as the tables call it; of auto also the loss that the plan chose."""
    loss = result.get("loss", "")
    return f"auto ({'SURE' if loss == 'sure' else loss})" if method == "auto" else method


def main_score(result: Result, condition: str = "", score: str | None = None) -> float:
    """The figure that the paper reports, of a cell, or another one."""
    return float(result["scores"][condition][score or result["score"]])


def strictness(results: dict[str, Result], paper: dict[str, tuple[float, float]], path: Path, first: str) -> str:
    """D(f) and PSNR, the paper's beside ours."""
    rows, drawn = [], []
    for name, result in results.items():
        title = PROTOCOLS[name].title if name in PROTOCOLS else name
        mine = 1e3 * result["invariance"], main_score(result)
        digits = 5 if mine[0] < 1e-3 else 3
        rows.append(
            [title, number(mine[0], digits), number(paper[name][0], 3), number(mine[1]), number(paper[name][1])]
        )
        drawn.append((title, mine, paper[name]))
    with drawing.figure(path, 7.2, 0.42 * len(drawn) + 1.2) as figure:
        left, right = figure.subplots(1, 2, sharey=True)
        for place, (_, mine, theirs) in enumerate(drawn):
            for panel, i in ((left, 0), (right, 1)):
                panel.plot([mine[i], theirs[i]], [place, place], color="0.8", zorder=0)
                panel.plot(theirs[i], place, "D", color=drawing.PAPERS, label="paper" if place == 0 else None)
                panel.plot(mine[i], place, "o", color=drawing.OURS, label="ours" if place == 0 else None)
        left.set(xscale="log", xlabel="D(f) × 10³", yticks=range(len(drawn)), yticklabels=[row[0] for row in drawn])
        left.invert_yaxis()
        right.set(xlabel="PSNR (dB)")
        figure.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=2)
    table = markdown([first, "D(f) × 10³", "the paper's", "PSNR (dB)", "the paper's"], rows)
    return f"{table}\n\n![D(f) and PSNR by {first}]({path.name})"


def table1(results: dict[str, Result], store: Store) -> str:
    """D(f) and PSNR on BSD68, by what replaces the masked pixels."""
    return strictness(results, TABLE1, store.folder / "table1.png", "replacement")


def table2(results: dict[str, Result], store: Store) -> str:
    """D(f) and PSNR of one replacement, by data set."""
    return strictness(results, TABLE2, store.folder / "table2.png", "data set")


def gap_closed(results: dict[str, Result], method: str, condition: str, score: str | None = None) -> float | None:
    """How much of the way from the noisy images to Noise2True a method goes, by the paper's figure or another one."""
    ends = (method, "noisy", "Noise2True")
    return _share(*(main_score(results[name], condition, score) if name in results else None for name in ends))


def published_gap(dataset: str, method: str, condition: str) -> float | None:
    """The same by the paper's figures."""
    return _share(*(published(name, dataset, condition) for name in (method, "noisy", "Noise2True")))


def _share(score: float | None, noisy: float | None, true: float | None) -> float | None:
    if score is None or noisy is None or true is None:
        return None
    return (score - noisy) / (true - noisy)


def table3(results: dict[tuple[str, str], Result], store: Store) -> str:
    """All methods on all data sets: the gap closed as a picture, and a table of each."""
    parts = ["![Gap closed by each method on each data set](table3.png)"]
    for dataset, found in by_dataset(results).items():
        protocol, first = PROTOCOLS[dataset], next(iter(found.values()))
        steps = max(result.get("summary", {}).get("steps", 0) for result in found.values())
        for condition, scores in first["scores"].items():
            title = f"{protocol.title} {condition}".strip()
            parts.append(f"### {title}\n\nn = {scores['n']}; {steps} steps; PSNR in dB.")
            parts.append(_of_dataset(dataset, condition, found))
    _draw_gaps(by_dataset(results), store.folder / "table3.png")
    return "\n\n".join(parts)


def by_dataset(results: dict[tuple[str, str], Result]) -> dict[str, dict[str, Result]]:
    """Data set -> method -> figures."""
    nested: dict[str, dict[str, Result]] = {}
    for (dataset, method), result in results.items():
        nested.setdefault(dataset, {})[method] = result
    return nested


def _of_dataset(dataset: str, condition: str, found: dict[str, Result]) -> str:
    """Every figure of a data set, by method; bold: the best method that is given neither noise level nor truth."""
    told = ("noisy", "Noise2True", "Noise2Noise", "Laine + noise model")
    fair = [name for name in found if name not in told]
    best = number(max((main_score(found[name], condition) for name in fair), default=None))
    score = PROTOCOLS[dataset].score
    others = [other for other in ("psnr", "psnr_affine") if other != score]
    known = published("noisy", dataset, condition) is not None
    rows = []
    for method, result in found.items():
        value = number(main_score(result, condition))
        row = [
            row_name(method, result),
            f"**{value}**" if value == best and method in fair else value,
            percent(gap_closed(found, method, condition)),
        ]
        if known:
            theirs = published(method, dataset, condition), published_gap(dataset, method, condition)
            row += [number(theirs[0]), percent(theirs[1])]
        for other in others:
            row += [number(result["scores"][condition][other]), percent(gap_closed(found, method, condition, other))]
        minutes = result.get("summary", {}).get("seconds", 0) / 60 or None
        rows.append([*row, number(result["scores"][condition]["ssim"], 3), number(minutes, 1)])
    paper = "Planaria's in the paper" if dataset == "planaria-like" else "the paper's"
    header = ["method", SCORES[score], "gap closed", *([paper, "gap closed"] if known else [])]
    header += [text for other in others for text in (SCORES[other], "gap closed")]
    return markdown([*header, "SSIM", "minutes"], rows)


def _draw_gaps(results: dict[str, dict[str, Result]], path: Path) -> None:
    """Gap closed by each method on each data set, the paper's beside ours; of several conditions, their mean."""
    ends = ("noisy", "Noise2True")
    shown = {name: found for name, found in results.items() if set(ends) < set(found)}
    heights = [len(found) - len(ends) for found in shown.values()]
    with drawing.figure(path, 7.2, 0.24 * sum(heights) + 0.5 * len(shown) + 1) as figure:
        panels = figure.subplots(max(1, len(shown)), 1, sharex=True, height_ratios=heights or None, squeeze=False)
        for panel, (dataset, found) in zip(panels[:, 0], shown.items(), strict=False):
            names = [name for name in found if name not in ends]
            for place, name in enumerate(names):
                conditions = found[name]["scores"]
                mine = [gap_closed(found, name, condition) for condition in conditions]
                theirs = [published_gap(dataset, name, condition) for condition in conditions]
                panel.barh(place, 100 * _mean(mine), height=0.7, color=_colour(name))
                if None not in theirs:
                    panel.plot(100 * _mean(theirs), place, "D", color=drawing.PAPERS, markersize=4)
            panel.set(
                yticks=range(len(names)),
                yticklabels=[row_name(name, found[name]) for name in names],
                title=PROTOCOLS[dataset].title,
                xlim=(0, 105),
            )
            panel.invert_yaxis()
            panel.grid(axis="y", visible=False)
        panels[-1, 0].set_xlabel("gap closed between the noisy images (0) and Noise2True (100 %); ◆ the paper's")


def _mean(values: list[float | None]) -> float:
    return sum(value or 0.0 for value in values) / len(values)


def _colour(name: str) -> str:
    return drawing.OURS if name in OUR_ROWS else drawing.OTHERS
