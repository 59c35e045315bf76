// SPDX-License-Identifier: Apache-2.0
"use strict";
// Two nights side by side, or two commits, each the median of all of its nights; of one machine or of two.
(async () => {
  const catalog = await data.catalog();
  const element = dom.find("cases");
  const [a, b, unit, metric, box] = ["a", "b", "unit", "metric", "q"].map(dom.find);
  let by = "";

  /** The comparable runs, newest first: each is some nights of one machine and toolchain. */
  const choices = { night: [], commit: [] };
  const commits = new Map();
  for (const one of [...catalog.nights].reverse()) {
    const commit = one.revision.slice(0, 12) || "unknown commit", key = `${one.revision} ${one.environment}`;
    choices.night.push({ ...one, nights: [one], title: `${units.moment(one.started)}, ${one.machine}, ${commit}` });
    if (!commits.has(key)) commits.set(key, choices.commit[choices.commit.push({ ...one, nights: [] }) - 1]);
    const made = commits.get(key), { length } = made.nights;
    made.nights.push(one);
    made.title = `${commit}, ${made.machine}, ${length ? `${length + 1} nights until ` : ""}${units.day(made.started)}`;
  }
  const choice = (id) => choices[unit.value].find((one) => one.nights.some((night) => night.id === id));
  const state = () => ({
    a: a.value, b: b.value, unit: unit.value === "night" ? "" : unit.value, metric: metric.value, q: box.value, sort: by });

  /** The figures of each case, as the gate takes them: medians, also at one pace of the machine, and the band. */
  const figures = (loaded) => {
    const found = new Map();
    for (const night of loaded) {
      for (const [place, ...row] of night.values[metric.value] ?? []) found.set(place, [...found.get(place) ?? [], row]);
    }
    return new Map([...found].map(([place, rows]) => {
      const counting = rows.filter((row) => !row[3]), chosen = counting.length ? counting : rows;
      const medians = ["value", "paced", "width"].map((name, column) => [name, units.median(chosen.map((row) => row[column]))]);
      return [place, { ...Object.fromEntries(medians), doubt: counting.length ? "" : rows[0][3] }];
    }));
  };

  /** As the gate: a change counts where it is beyond the band around A. */
  const verdict = (before, after, { better }) => {
    const missing = [before, after].map((one, place) => Number.isFinite(one?.value) ? "" : "AB"[place]).filter(Boolean);
    if (missing.length || !before.value) {
      return { group: "", word: missing.length === 1 ? `not in ${missing}` : "-", change: NaN, width: NaN };
    }
    const same = choice(a.value).environment === choice(b.value).environment, change = after.value / before.value - 1;
    // The pace of a night is unknown where its processes measured no roof; another machine has its own.
    const paced = same && before.paced && after.paced ? after.paced / before.paced - 1 : change;
    const doubt = [before, after].map((one, place) => one.doubt && `${"AB"[place]}: ${one.doubt}`).filter(Boolean).join("; ");
    if (doubt) return { group: "doubtful", word: `≈ ambiguous: ${doubt}`, change, width: NaN };
    if (before.width === null || after.width === null) return { group: "young", word: "… too young", change, width: NaN };
    const width = Math.max(before.width, after.width);
    const said = Math.abs(paced - change) < 0.01 ? "" : `, ${units.change(paced)} at one pace`;
    const [group, word] = !better || Math.abs(Math.log1p(paced)) <= width ? ["steady", "· same"]
      : (paced > 0) === (better === "lower") ? ["worse", "▲ worse"] : ["better", "▼ better"];
    return { group, word: word + said, change, width: Math.expm1(width) };
  };

  const cell = (text, value, attributes = {}) =>
    dom.make("td", { "data-value": Number.isFinite(value) ? value : "", class: "figure", ...attributes }, text);
  const row = (place, before, after, about) => {
    const { group, word, change, width } = verdict(before, after, about);
    const name = catalog.cases[place];
    const series = catalog.series.find((one) =>
      one.place === place && one.metric === metric.value && one.environment === choice(b.value).environment);
    const words = dom.name(name);
    const shown = series ? [dom.make("a", { href: link.to("case", { series: series.id, night: b.value }) }, ...words)] : words;
    return dom.make("tr", { "data-text": name.toLowerCase(), "data-group": group, "data-family": catalog.families[place],
      "data-change": group !== "doubtful" && Number.isFinite(change) ? change : "" },
      dom.make("td", { "data-value": name, class: "name" }, ...shown),
      cell(units.shown(before?.value, about.unit), before?.value, { "data-label": "A" }),
      cell(units.shown(after?.value, about.unit), after?.value, { "data-label": "B" }),
      cell(units.change(change), change, { "data-label": "change" }),
      cell(Number.isFinite(width) ? `± ${(100 * width).toFixed(1)} %` : "-", width, { "data-label": "band" }),
      dom.make("td", { class: group, "data-value": word, "data-label": "verdict" }, word));
  };

  const filter = () => {
    const fits = table.matcher(box.value);
    const counts = { worse: 0, better: 0, steady: 0, doubtful: 0, young: 0 };
    for (const one of element.tBodies[0].rows) {
      one.hidden = !fits(one.dataset.text);
      if (!one.hidden && one.dataset.group) counts[one.dataset.group] += 1;
    }
    const unjudged = [["≈", "doubtful", "ambiguous"], ["…", "young", "too young"]]
      .filter(([, group]) => counts[group]).map(([mark, group, word]) => `, ${mark} ${counts[group]} ${word}`).join("");
    dom.fill("count", `▲ ${counts.worse} worse, ▼ ${counts.better} better, · ${counts.steady} the same${unjudged}`);
    table.families(dom.find("families"), [...element.tBodies[0].rows].filter((one) => !one.hidden));
  };

  const show = async (wanted) => {
    unit.value = wanted.unit === "commit" ? "commit" : "night";
    const all = choices[unit.value], newest = all[0];
    const before = all.slice(1).find((one) => one.environment === newest.environment) ?? newest;
    for (const [select, id, otherwise] of [[a, wanted.a, before], [b, wanted.b, newest]]) {
      dom.options(select, all.map((one) => [one.id, one.title]), (choice(id) ?? otherwise)?.id ?? "");
    }
    const metrics = catalog.chosen.map((name) => [name, name]);
    dom.options(metric, metrics, catalog.chosen.includes(wanted.metric) ? wanted.metric : catalog.chosen[0]);
    box.value = wanted.q ?? "";
    by = wanted.sort ?? "";
    if (!newest) { dom.say("There is no run in this history yet."); dom.ready("usable"); return; }
    const loaded = await Promise.all([a, b].map((one) =>
      Promise.all(choice(one.value).nights.map((night) => data.load(`night/${night.id}`)))));
    const [left, right] = loaded.map(figures), [[first], [second]] = loaded;
    const about = catalog.metric(metric.value);
    const places = [...new Set([...left.keys(), ...right.keys()])];
    const rows = places.map((place) => row(place, left.get(place), right.get(place), about));
    element.tBodies[0].replaceChildren(...rows);
    table.sort(element, by || (about.better === "higher" ? "change" : "-change"));
    dom.fill("facts-a", dom.facts([["files", first.files.join(", ")], ...first.facts]));
    dom.fill("facts-b", dom.facts([["files", second.files.join(", ")], ...second.facts]));
    filter();
    dom.ready("usable");
  };

  const again = (changed = {}) => {
    const wanted = { ...state(), ...changed };
    link.write(wanted);
    return show(wanted);
  };
  for (const one of [a, b, metric]) one.addEventListener("change", () => again());
  // Two nights are often of one commit.
  unit.addEventListener("change", () => again({ a: "", b: "" }));
  dom.find("swap").addEventListener("click", () => { [a.value, b.value] = [b.value, a.value]; return again(); });
  box.addEventListener("input", () => { filter(); link.write(state()); });
  table.sorting(element, (wanted) => { by = wanted; table.sort(element, by); link.write(state()); });
  table.walking(element, box);
  await link.follow(show);
})().catch((error) => dom.say(`This page cannot be shown: ${error.message}`));
