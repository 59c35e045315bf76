// SPDX-License-Identifier: Apache-2.0
"use strict";
(async () => {
  const catalogue = await data.catalogue();
  const ids = new Map(catalogue.series.map((one) => [one.id, one]));
  let view = null;

  const whose = (one) => `${one.metric}, ${one.machine}, ${one.toolchain}`;
  const head = (one) => {
    document.title = `${one.case} · roofbench`;
    dom.fill("name", one.case);
    dom.fill("whose", whose(one));
    const same = catalogue.series.filter((other) => other.place === one.place);
    dom.options(dom.find("series"), same.map((other) => [other.id, whose(other)]), one.id);
  };

  const since = ({ since: moment, text }) => text.includes(units.day(moment)) ? "" : `since ${units.day(moment)}: `;
  const findings = ({ series }) => {
    const found = series.findings.map((one) => dom.make("li", { class: one.group },
      dom.make("b", {}, `${one.mark} ${one.word}`), ` ${since(one)}${one.text}`));
    const said = series.annotations.map(([since, kind, why]) =>
      dom.make("li", {}, dom.make("b", {}, `⚑ ${kind}`), ` ${units.day(since)}: ${why}`));
    dom.fill("findings", ...found, ...said);
    if (!found.length) dom.find("findings").prepend(dom.make("li", {}, "· steady"));
  };

  const nights = () => {
    const rows = view.runs.map((run, place) => [String(place),
      `${units.day(run.started)}  ${units.shown(view.series.values[place], view.unit)}`]);
    dom.options(dom.find("night"), rows.reverse(), String(view.night));
    const table = view.runs.map((run, place) => dom.make("tr", {},
      dom.make("th", { scope: "row" }, units.moment(run.started)),
      dom.make("td", {}, units.shown(view.series.values[place], view.unit)),
      dom.make("td", {}, dom.make("code", {}, run.revision.slice(0, 12) || "unknown"))));
    dom.find("nights").tBodies[0].replaceChildren(...table.reverse());
  };

  const address = () => ({
    series: view.id, night: view.night === view.runs.length - 1 ? "" : view.runs[view.night].id,
    roofs: view.roofs ? "1" : "" });

  const step = () => {
    dom.find("earlier").disabled = view.night === 0;
    dom.find("later").disabled = view.night === view.runs.length - 1;
    dom.find("roofline").href = link.to("roofline", { run: view.runs[view.night].id });
  };

  const draw = async () => {
    step();
    const measured = view.series.values.some((value) => value !== null);
    dom.find("history").hidden = !measured;
    await Promise.all([measured && charts.draw("history", historyChart.made(view)), night.show(view)]);
  };
  const choose = async (place) => {
    if (place === view.night || !view.runs[place]) return;
    view.night = place;
    dom.find("night").value = String(place);
    link.write(address());
    await draw();
  };

  const show = async (wanted) => {
    const one = ids.get(wanted.series);
    dom.find("case").hidden = !one;
    if (!one) { dom.say("There is no such case in this history. The overview lists all."); dom.ready("usable"); return; }
    const series = await data.load(`series/${one.id}`);
    const details = await data.load(`details/${series.details}`);
    const runs = series.runs.map((place) => catalogue.runs[place]);
    const asked = runs.findIndex((run) => run.id === wanted.night);
    series.label = one.metric;
    view = { ...one, catalogue, series, details, runs, unit: catalogue.metric(one.metric).unit,
      night: asked < 0 ? runs.length - 1 : asked, roofs: wanted.roofs === "1", choose };
    dom.say("");
    head(one);
    findings(view);
    nights();
    dom.find("roofs").checked = view.roofs;
    dom.find("bounds").hidden = !Object.keys(series.bounds).length;
    dom.fill("command", series.command.join("\n") || "The name of this case is unsafe in a shell.");
    await draw();
    dom.ready("usable");
  };

  dom.find("series").addEventListener("change", ({ target }) => { location.hash = new URLSearchParams({ series: target.value }); });
  dom.find("night").addEventListener("change", ({ target }) => choose(Number(target.value)));
  dom.find("earlier").addEventListener("click", () => choose(view.night - 1));
  dom.find("later").addEventListener("click", () => choose(view.night + 1));
  dom.find("whole").addEventListener("click", draw);
  dom.find("roofs").addEventListener("change", ({ target }) => {
    view.roofs = target.checked;
    link.write(address());
    return draw();
  });
  await link.follow(show);
})().catch((error) => dom.say(`This page cannot be shown: ${error.message}`));
