# SPDX-License-Identifier: Apache-2.0
"""The folder of a site: its contents, and the handling of an existing one."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import builders
import pytest
import sites
import years
from roofreport.cli import main
from roofreport.gate.verdicts import Finding, judge
from roofreport.history.record import of_file
from roofreport.history.records import Machine, Reading, Run, Series, Toolchain
from roofreport.history.store import Store, open_store
from roofreport.io.contract import TIME, Better, Metric, packaged
from roofreport.io.result import State
from roofreport.render import formats
from roofreport.site import build, data, overview
from roofreport.site.data import number, script_text, token
from roofreport.site.nights import Night, by_night
from scratch_repository import git

_CALL = re.compile(r"received\((\"[^\"]+\"),(.*)\);\n", re.ASCII | re.DOTALL)


def _site(store: Path, out: Path, *flags: str) -> int:
    return main(["site", f"--store={store}", f"--out={out}", *flags])


def _data(site: sites.Site, name: str) -> object:
    found = _CALL.fullmatch((site.folder / "data" / f"{name}.js").read_text())
    assert found
    return json.loads(found[2])


def test_every_script_of_data_is_one_call_with_json(hostile: sites.Site) -> None:
    scripts = list((hostile.folder / "data").rglob("*.js"))
    assert len(scripts) > 2 * len(sites.HOSTILE)
    for script in scripts:
        found = _CALL.fullmatch(script.read_bytes().decode("ascii"))
        assert found and "<" not in found[2], script
        assert json.loads(found[1]) == script.relative_to(hostile.folder / "data").with_suffix("").as_posix()
        json.loads(found[2], parse_constant=pytest.fail)


def test_no_name_becomes_that_of_a_file(hostile: sites.Site) -> None:
    for path in hostile.folder.rglob("*"):
        assert re.fullmatch(r"[\w.-]+", path.name, re.ASCII), path


def test_the_site_is_whole(plain: sites.Site) -> None:
    for page in sites.PAGES:
        written = (plain.folder / f"{page}.html").read_text()
        assert all(
            (plain.folder / name).is_file()
            for name in re.findall(r'(?:src|href)="((?:assets/|\w+\.html)[^"#]*)', written)
        )
        assert not re.search(r"(?:src|href)=\"(?:https?:)?//", written)
    index = _data(plain, "index")
    assert isinstance(index, dict)
    assert index["nights"][0][1] == 1000 * years.FIRST.timestamp()
    for key, *_ in index["series"]:
        series = _data(plain, f"series/{key}")
        assert isinstance(series, dict)
        assert (plain.folder / "data" / "details" / f"{series['details']}.js").is_file()


def test_only_the_library_is_not_ours(plain: sites.Site) -> None:
    ours = {path.name for path in (builders.ROOT / "tools/roofreport/site/assets").iterdir()} | {"cards.css"}
    assert {path.name for path in (plain.folder / "assets").iterdir()} - ours == set(build.SCRIPTS)


def test_a_series_of_an_older_toolchain_has_ended(tmp_path: Path) -> None:
    cases = years.names(2)
    with open_store(str(tmp_path / "history.db"), create=True) as store:
        years.fill(store, years.Year(cases, 9), tmp_path, range(5))
        years.fill(store, years.Year(cases, 9, context={"torch_version": "9.9.9"}), tmp_path, range(5, 9))
        machines = by_night(store.history(TIME.name), store.runs(), TIME)
        rows = overview.overview({TIME.name: machines}, {}, packaged()).rows
    assert sorted((row.case, row.status.word, row.since) for row in rows) == sorted(
        (case, word, since) for case in cases for word, since in (("too young", ""), ("ended", "2026-01-05"))
    )
    wanted = {"4 of 6 nights; the gate begins to judge in 2 more nights", ""}
    assert {row.text for row in rows} == wanted, "the page writes the word before it"


def _reading(night: int, process: int, value: float | None, doubt: str = "") -> Reading:
    machine, toolchain = Machine("m", "m", {}), Toolchain("t", "t", {})
    started = years.FIRST + timedelta(days=night, hours=process)
    number = 3 * night + process
    run = Run(number, f"digest{number}", started, f"commit{night}", machine, toolchain, {}, "")
    state, reason = (State.FAILED, "it died") if value is None else (State.MEASURED, "")
    return Reading(run, value, state, reason, doubt, {"ci": float(process)})


def test_a_night_is_the_median_of_its_processes() -> None:
    values: list[list[float | None]] = [[1.0, 1.5, 1.1], [2.0], [1.0, None, 1.2], [None, None]]
    readings = [_reading(night, place, value) for night, row in enumerate(values) for place, value in enumerate(row)]
    first = readings[0].run
    series = Series("a", TIME.name, first.machine, first.toolchain)
    (nights,) = by_night({series: readings}, [one.run for one in readings], TIME).values()
    assert [one.reading.value for one in nights] == [1.1, 2.0, 1.1, None]
    assert [one.paced and round(one.paced, 3) for one in nights] == [1.1, 2.0, 1.095, None]
    assert [one.reading.state.value for one in nights] == ["measured", "measured", "failed", "failed"]
    assert [one.reading.reason for one in nights] == ["", "", "it died", "it died"]
    assert [one.reading.run.digest for one in nights] == ["digest0", "digest3", "digest6", "digest9"]
    assert [one.reading.counters["ci"] for one in nights] == [1.0, 0.0, 1.0, 0.5]
    assert [len(one.processes) for one in nights] == [3, 1, 3, 2]


def test_readings_that_distrust_themselves_are_shown_and_not_judged() -> None:
    rows = [[(1.0, ""), (9.0, "noisy"), (1.2, "")], [(7.0, "noisy"), (9.0, "3 samples")]]
    readings = [_reading(night, place, *one) for night, row in enumerate(rows) for place, one in enumerate(row)]
    runs = [one.run for one in readings]
    series = Series("a", TIME.name, runs[0].machine, runs[0].toolchain)
    histories = {TIME.name: by_night({series: readings}, runs, TIME)}
    nights = histories[TIME.name][series]
    found = [(one.reading.value, one.reading.doubt, one.paced is None) for one in nights]
    assert found == [(1.1, "", False), (8.0, "noisy; 3 samples", True)]
    catalog = data.Catalog(histories, runs, packaged())
    own = data.series_data(series, nights, [], [], TIME, catalog)
    assert own["doubts"] == {"1": "noisy; 3 samples"}
    assert [level[2] for level in own["levels"]] == [1.1]
    assert data.details_data(nights, {})["doubts"] == {"1": "noisy", "3": "noisy", "4": "3 samples"}
    peaks = by_night({series: readings}, runs, Metric("peak_mem", "B", Better.LOWER, 0.02, noisy=False))
    assert [one.reading.doubt for one in peaks[series]] == ["", ""], "memory does not follow the clock"


def test_a_step_up_is_found_in_the_processes_of_its_night(tmp_path: Path) -> None:
    cases = years.names(3)
    year = years.Year(cases, 12, changes={cases[1]: years.Change(11, 1.12)}, processes=3)
    with open_store(str(tmp_path / "history.db"), create=True) as store:
        years.fill(store, year, tmp_path, range(3, 12))
        worst, *others = _overview(store)
        assert (worst.case, worst.status.word, worst.since) == (cases[1], "worse", "2026-01-12")
        assert worst.change_value == pytest.approx(0.12, abs=0.03)
        assert [row.status.word for row in others] == ["steady"] * 2
        assert all(abs(row.change_value) < 0.03 for row in others)


def _overview(store: Store) -> Sequence[overview.SeriesRow]:
    nights = by_night(store.history(TIME.name), store.runs(), TIME)
    found = judge(store)
    by_series = {series: [one for one in found if one.series == series] for series in nights}
    return overview.overview({TIME.name: nights}, by_series, packaged()).rows


def test_the_second_run_of_the_gate_has_the_last_word(tmp_path: Path) -> None:
    cases = years.names(4)
    changes = {cases[0]: years.Change(11, 1.3), **dict.fromkeys(cases[1:3], years.Change(11, 1.12))}
    night = years.FIRST + timedelta(days=11)
    with open_store(str(tmp_path / "history.db"), create=True) as store:
        years.fill(store, years.Year(cases, 12, changes=changes, processes=3), tmp_path)
        keys = {series.case: series.key for series in store.history(TIME.name)}
        for case, kind, moment in (
            (cases[0], "dismissed", night - timedelta(days=1)),  # of another night
            (cases[1], "confirmed", night),
            (cases[2], "confirmed", night),
            (cases[2], "dismissed", night),
        ):
            store.accept(keys[case], moment, f"said: {kind}", kind=kind)
        rows = _overview(store)
    assert [(row.case, row.status.word) for row in rows] == [
        (cases[1], "worse, confirmed"), (cases[0], "worse"), (cases[2], "dismissed"), (cases[3], "steady"),
    ]  # fmt: skip
    assert rows[0].status.group is data.Group.WORSE and rows[2].status.group is data.Group.STEADY
    assert [row.text for row in rows[::2]] == ["said: confirmed", "said: dismissed"]


def test_a_site_is_replaced_and_another_folder_is_not(
    plain: sites.Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "site"
    assert _site(plain.store, out) == 0
    (out / "old.html").write_text("")
    assert _site(plain.store, out) == 0
    assert not (out / "old.html").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["site"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    (tmp_path / "link").symlink_to(out)
    (tmp_path / "file").write_text("")
    for name in ("mine", "link", "file"):
        assert _site(plain.store, tmp_path / name) == 2
        assert f"{name}: " in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.tex"]


def test_what_fails_leaves_the_old_site(
    plain: sites.Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "site"
    assert _site(plain.store, out) == 0
    before = (out / "index.html").read_bytes()
    for flags in ([f"--repository={tmp_path}"], ["--metric=cycles"]):
        assert _site(plain.store, out, *flags) == 2
    monkeypatch.setattr(build, "find_spec", lambda name: None)
    assert _site(plain.store, out) == 2
    assert "need the Python package bokeh" in capsys.readouterr().err
    assert (out / "index.html").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


def test_a_history_without_a_run_has_a_site(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "empty.db"), create=True):
        pass
    assert _site(tmp_path / "empty.db", tmp_path / "site") == 0
    assert "no run in this history" in (tmp_path / "site" / "index.html").read_text()


def test_many_runs_are_read_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "_MANY_RUNS", 4)
    store = tmp_path / "history.db"
    with open_store(str(store), create=True) as opened:
        years.fill(opened, years.Year(sites.CASES, 6), tmp_path)
        runs = opened.runs()
        (series, *_) = opened.series(pattern=sites.STEADY)
        shared = data.samplings(opened, str(store), runs)[series.case]
        monkeypatch.setattr(data, "_MANY_RUNS", 100)
        assert shared == data.samplings(opened, str(store), runs)[series.case]
    assert len(shared) == 6


def test_the_roofline_of_a_night_is_that_of_its_record(tmp_path: Path) -> None:
    line = builders.line("gelu/dtype:bf16/n:1", 1.0, flops=1e9, bytes=1e6, flops_by_precision={"fp32": 1e9})
    line["counters"] |= {"FLOP/s": 1e12, "bytes/s": 1e9, "a100_flop_util": 1e12 / 19.5e12, "noisy": 1.0}
    (tmp_path / "night.jsonl").write_text(builders.journal_text(builders.header(), line))
    with open_store(str(tmp_path / "history.db"), create=True) as opened:
        opened.add(of_file(tmp_path / "night.jsonl"))
    site = sites.build(tmp_path, tmp_path / "history.db")
    (night,) = (site.folder / "data/night").glob("*.js")
    drawn = _data(site, f"night/{night.stem}")
    assert isinstance(drawn, dict)
    labels = [label for label, dashed, *_ in drawn["roofline"]["lines"] if dashed]
    assert labels == ["a100-sxm4-40gb: fp32 19.5 TFLOP/s"]
    assert [mark[-1] for mark in drawn["roofline"]["marks"]] == ["noisy"], "it is in doubt"
    assert [doubtful for *_, doubtful in drawn["roofline"]["keys"]] == [False, False, True]


def _nights(values: Sequence[float | None]) -> list[Night]:
    readings = [_reading(night, 0, value) for night, value in enumerate(values)]
    first = readings[0].run
    series = Series("a", TIME.name, first.machine, first.toolchain)
    return by_night({series: readings}, [one.run for one in readings], TIME)[series]


def test_levels_are_where_a_series_changed() -> None:
    values: list[float | None] = [1.0 + 0.001 * (i % 5) for i in range(30)]
    values += [None, math.inf, *(1.2 + 0.001 * (i % 5) for i in range(30))]
    nights = _nights(values)
    assert [one.level for one in nights] == [0] * 30 + [None] * 2 + [1] * 30
    first, second = data.levels_of(values, nights, TIME)
    assert (first.first, first.last, second.first, second.last) == (0, 29, 32, 61)
    assert first.low < 1.0 < first.middle < first.high < 1.2 < second.middle
    assert data.levels_of([None], _nights([None]), TIME) == []


def test_a_histogram_ends_at_the_99th_percentile() -> None:
    samples = [1.0 + 0.001 * (i % 100) for i in range(1000)]
    found = data.histogram([*samples, 50.0])
    assert found is not None
    assert found[:3] == [1001, 1, 50] and found[4] == 1001 - sum(found[3]) == 10 and found[5] < 1.2
    assert [one > 0 for one in found[3]] == [True] * len(found[3]), "one sample would take all bins but one"


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("mlp/dtype:fp32/d:256", ["mlp/", "dtype:fp32/", "d:256"]),
        ("a100_flop_util", ["a100_", "flop_", "util"]),
        ("<b>/n:1", ["&lt;b&gt;/", "n:1"]),
        ("", [""]),
    ],
)
def test_a_name_breaks_between_its_parts(name: str, parts: list[str]) -> None:
    assert formats.breakable(name).split("<wbr>") == parts


def test_a_histogram_holds_every_sample() -> None:
    found = data.histogram([1.0, 2.0, 2.0, 3.0, math.nan])
    assert found is not None
    assert found[:3] == [4, 1, 3] and sum(found[3]) == 4 and found[3][-1] == 1
    assert data.histogram([2.0, 2.0])[3][0] == 2  # type: ignore[index]
    assert data.histogram([]) is None


def test_a_sparkline_stays_in_its_box() -> None:
    drawn = overview.sparkline([1.0, None, 1e90, 1e-90, *([2.0] * 1000)])
    places = [float(y) for y in re.findall(r"[\d.]+,([-\d.]+)", drawn)]
    assert places and all(0 <= y <= overview.HEIGHT for y in places)
    assert overview.sparkline([1.0]) == ""


def test_sparklines_have_one_scale() -> None:
    def heights(*values: float) -> list[float]:
        return [float(y) for y in re.findall(r"[\d.]+,([-\d.]+)", overview.sparkline(values))]

    up = heights(*[1.0] * 9, 1.06)
    assert up == heights(*[5e-3] * 9, 5.3e-3), "6 % is a quarter of the height"
    assert up[0] == overview.HEIGHT / 2 and 5 < up[0] - up[-1] < 7
    quiet = heights(*[1.0, 1.01] * 5)
    assert max(quiet) - min(quiet) < 1.2


def test_the_worst_finding_names_a_series() -> None:
    machine, toolchain = Machine("m", "m", {}), Toolchain("t", "t", {})
    series = Series("a", TIME.name, machine, toolchain)
    run = Run(1, "d", years.FIRST, "", machine, toolchain, {}, "")

    def finding(kind: str, effect: float = 0.1) -> Finding:
        return Finding(series, kind, run, 1.0, 1.1, effect, None, kind)  # type: ignore[arg-type]

    assert data.worst_status([], TIME)[0] is data.STEADY
    assert data.worst_status([finding("ambiguous"), finding("slower")], TIME)[0].word == "worse"
    assert data.worst_status([finding("slower"), finding("failed")], TIME)[0].word == "failed"
    assert data.status_of(finding("drift", -0.1), TIME).group is data.Group.BETTER
    assert data.status_of(finding("drift"), TIME).group is data.Group.WORSE


def test_tokens_fit_files_and_links() -> None:
    assert token("0123456789abcdef") == "0123456789abcdef"
    for strange in ("../../x", "", "a" * 1000, "<img>", "\ud800"):
        assert re.fullmatch(r"[0-9a-f]{16}|a{16}", token(strange))
    assert token("../x") != token("../y")


def test_data_is_what_json_knows() -> None:
    assert script_text("a", ["</script>\u2028é"]) == 'received("a",["\\u003c/script>\\u2028\\u00e9"]);\n'
    with pytest.raises(ValueError):
        script_text("a", math.nan)
    assert [number(value) for value in (math.inf, math.nan, 1e200, None)] == [None] * 4
    assert number(1234567.0) == 1234570 and number(0.123456789) == 0.123457


def test_a_signed_commit_is_one_commit(tmp_path: Path) -> None:
    """Where the user's settings show signatures, of which the branch says what it wants."""
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "commit", "--quiet", "--allow-empty", "-m", "Change 0")
    git(tmp_path, "commit", "--quiet", "--allow-empty", "-m", "Change 1")
    plain = git(tmp_path, "cat-file", "commit", "HEAD")
    signed = re.sub("(?m)^(committer .*)$", r"\1\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x", plain, count=1)
    written = git(tmp_path, "hash-object", "-t", "commit", "-w", "--stdin", given=f"{signed}\n")
    git(tmp_path, "reset", "--quiet", "--hard", written)
    speaker = tmp_path / "gpg"
    speaker.write_text("#!/bin/sh\necho good: no, bad >&2\n")
    speaker.chmod(0o755)
    for name, value in (("log.showSignature", "true"), ("gpg.program", speaker)):
        git(tmp_path, "config", name, str(value))
    assert [subject for _, subject in data.commit_log(tmp_path)] == ["Change 1", "Change 0"]
