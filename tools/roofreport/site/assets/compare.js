// SPDX-License-Identifier: Apache-2.0
"use strict";
// Any two runs side by side: two nights of a machine, or two machines.
(async () => {
  const catalogue = await data.catalogue();
  const ids = new Map(catalogue.runs.map((run) => [run.id, run]));
  const element = dom.find("cases");
  const [a, b, metric, box] = ["a", "b", "metric", "q"].map(dom.find);
  let by = "";

  const title = (run) => `${units.moment(run.started)}, ${run.machine}, ${run.revision.slice(0, 12) || "unknown commit"}`;
  const newestFirst = [...catalogue.runs].reverse().map((run) => [run.id, title(run)]);
  const state = () => ({ a: a.value, b: b.value, metric: metric.value, q: box.value, sort: by });

  const verdict = (change, { better, practical }) => {
    if (!Number.isFinite(change)) return ["", "-"];
    if (!better || Math.abs(change) <= practical) return ["steady", "· same"];
    return (change > 0) === (better === "lower") ? ["worse", "▲ worse"] : ["better", "▼ better"];
  };

  const cell = (text, value, attributes = {}) =>
    dom.make("td", { "data-value": Number.isFinite(value) ? value : "", ...attributes }, text);
  const row = (place, before, after, about) => {
    const change = before && typeof after === "number" ? after / before - 1 : NaN;
    const [group, word] = verdict(change, about);
    const name = catalogue.cases[place];
    const series = catalogue.series.find((one) =>
      one.place === place && one.metric === metric.value && one.machine === ids.get(b.value).machine);
    const shown = series ? dom.make("a", { href: link.to("case", { series: series.id, night: b.value }) }, name) : name;
    return dom.make("tr", { "data-text": name.toLowerCase(), "data-group": group },
      dom.make("td", { "data-value": name, class: "name" }, shown),
      cell(units.shown(before, about.unit), before, { "data-label": "A" }),
      cell(units.shown(after, about.unit), after, { "data-label": "B" }),
      cell(units.change(change), change, { "data-label": "change" }),
      dom.make("td", { class: group, "data-value": word, "data-label": "verdict" }, word));
  };

  const filter = () => {
    const fits = table.matcher(box.value);
    const counts = { worse: 0, better: 0, steady: 0 };
    for (const one of element.tBodies[0].rows) {
      one.hidden = !fits(one.dataset.text);
      if (!one.hidden && one.dataset.group) counts[one.dataset.group] += 1;
    }
    dom.fill("count", `▲ ${counts.worse} worse, ▼ ${counts.better} better, · ${counts.steady} the same`);
  };

  const show = async (wanted) => {
    const last = catalogue.runs.at(-1), newest = last?.id ?? "";
    const before = catalogue.runs.slice(0, -1).findLast((run) => run.machine === last.machine)?.id ?? newest;
    dom.options(a, newestFirst, ids.has(wanted.a) ? wanted.a : before);
    dom.options(b, newestFirst, ids.has(wanted.b) ? wanted.b : newest);
    const metrics = catalogue.chosen.map((name) => [name, name]);
    dom.options(metric, metrics, catalogue.chosen.includes(wanted.metric) ? wanted.metric : catalogue.chosen[0]);
    box.value = wanted.q ?? "";
    by = wanted.sort ?? "";
    if (!newest) { dom.say("There is no run in this history yet."); dom.ready("usable"); return; }
    const [first, second] = await Promise.all([a, b].map((one) => data.load(`run/${one.value}`)));
    const [left, right] = [first, second].map((run) => new Map(run.values[metric.value] ?? []));
    const about = catalogue.metric(metric.value);
    const places = [...new Set([...left.keys(), ...right.keys()])];
    const rows = places.map((place) => row(place, left.get(place) ?? null, right.get(place) ?? null, about));
    element.tBodies[0].replaceChildren(...rows);
    table.sort(element, by || (about.better === "higher" ? "change" : "-change"));
    dom.fill("facts-a", dom.facts([["file", first.file], ...first.facts]));
    dom.fill("facts-b", dom.facts([["file", second.file], ...second.facts]));
    filter();
    dom.ready("usable");
  };

  const again = () => { link.write(state()); return show(state()); };
  for (const one of [a, b, metric]) one.addEventListener("change", again);
  dom.find("swap").addEventListener("click", () => { [a.value, b.value] = [b.value, a.value]; return again(); });
  box.addEventListener("input", () => { filter(); link.write(state()); });
  table.sorting(element, (wanted) => { by = wanted; table.sort(element, by); link.write(state()); });
  table.walking(element, box);
  await link.follow(show);
})().catch((error) => dom.say(`This page cannot be shown: ${error.message}`));
