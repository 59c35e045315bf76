// SPDX-License-Identifier: Apache-2.0
"use strict";
// The cases of one run under its roofs.
(async () => {
  const catalogue = await data.catalogue();
  const ids = new Map(catalogue.runs.map((run) => [run.id, run]));
  const [chooser, family] = ["run", "family"].map(dom.find);
  const rate = (value) => units.shown(value, "FLOP/s");

  const cases = (run) => run.roofline.marks.map(([place, x, y, roof, color, shape]) => ({
    x, y, color: run.roofline.colors[color], shape: catalogue.shapes[shape], name: catalogue.cases[place], family: catalogue.families[place], rate: rate(y),
    roof: units.shown(roof, "fraction"), share: roof, place }));

  const made = (run, rows) => (colors) => {
    const plot = charts.figure(colors, { height: 460, x_axis_type: "log", y_axis_type: "log", tools: "pan,box_zoom",
      x_axis_label: "arithmetic intensity (FLOP/byte)", y_axis_label: "arithmetic rate (FLOP/s)" });
    charts.words(plot.xaxes[0], (value) => units.shown(value, ""));
    charts.words(plot.yaxes[0], rate);
    for (const [, dashed, ...ends] of run.roofline.lines) {
      plot.line([ends[0], ends[2]], [ends[1], ends[3]], {
        line_color: colors.ink, line_width: dashed ? 1.2 : 2, line_dash: dashed ? "dashed" : "solid" });
    }
    const names = ["x", "y", "name", "rate", "roof", "color", "shape"];
    const columns = Object.fromEntries(names.map((name) => [name, rows.map((row) => row[name])]));
    const marks = plot.scatter({ field: "x" }, { field: "y" }, {
      source: charts.source(columns), size: 10, marker: { field: "shape" }, fill_color: { field: "color" },
      line_color: colors.back });
    charts.hover(plot, [marks], [["case", "@name"], ["rate", "@rate"], ["of its roof", "@roof"]]);
    return plot;
  };

  const SIGNS = { circle: "●", square: "■", diamond: "◆", triangle: "▲" };
  const keys = (run) => run.roofline.keys.map(([label, color, shape]) => {
    const sign = dom.make("span", { "aria-hidden": "true" }, SIGNS[catalogue.shapes[shape]]);
    sign.style.color = run.roofline.colors[color];
    return dom.make("li", {}, sign, ` ${label}`);
  });

  const list = (run, rows) => {
    const cell = (text, value, label) => dom.make("td", { "data-value": value ?? "", "data-label": label }, text);
    dom.find("cases").tBodies[0].replaceChildren(...rows.map((row) => {
      const series = catalogue.series.find((one) => one.place === row.place && one.machine === run.machine);
      const name = series ? dom.make("a", { href: link.to("case", { series: series.id, night: run.id }) }, row.name) : row.name;
      return dom.make("tr", {}, dom.make("td", { "data-value": row.name, class: "name" }, name),
        cell(row.rate, row.y, "rate"), cell(units.shown(row.x, ""), row.x, "FLOP/byte"),
        cell(row.roof, row.share, "of its roof"));
    }));
  };

  const show = async (wanted) => {
    const newest = catalogue.runs.at(-1)?.id ?? "";
    const chosen = ids.has(wanted.run) ? wanted.run : newest;
    const title = (run) => `${units.moment(run.started)}, ${run.machine}`;
    dom.options(chooser, [...catalogue.runs].reverse().map((run) => [run.id, title(run)]), chosen);
    if (!chosen) { dom.say("There is no run in this history yet."); dom.ready("usable"); return; }
    const run = await data.load(`run/${chosen}`);
    const all = cases(run);
    const families = [...new Set(all.map((row) => row.family))];
    dom.options(family, [["", "all"], ...families.map((name) => [name, name])], families.includes(wanted.family) ? wanted.family : "");
    const rows = all.filter((row) => !family.value || row.family === family.value);
    dom.fill("roofs", ...run.roofline.lines.map(([label, dashed]) => dom.make("li", {}, `${dashed ? "╌" : "─"} ${label}`)));
    dom.fill("keys", ...keys(run));
    list(ids.get(chosen), rows);
    if (wanted.sort) table.sort(dom.find("cases"), wanted.sort);
    const drawn = rows.length > 0 || run.roofline.lines.length > 0;
    dom.find("chart").hidden = !drawn;
    if (drawn) await charts.draw("chart", made(run, rows));
    dom.ready("usable");
  };

  const state = () => ({ run: chooser.value, family: family.value, sort: link.read().sort ?? "" });
  for (const one of [chooser, family]) one.addEventListener("change", () => { link.write(state()); return show(state()); });
  table.sorting(dom.find("cases"), (by) => { table.sort(dom.find("cases"), by); link.write({ ...state(), sort: by }); });
  await link.follow(show);
})().catch((error) => dom.say(`This page cannot be shown: ${error.message}`));
