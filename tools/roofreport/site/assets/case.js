// SPDX-License-Identifier: Apache-2.0
"use strict";
(async () => {
  const catalog = await data.catalog();
  const ids = new Map(catalog.series.map((one) => [one.id, one]));
  let view = null;

  const whose = (one) => `${one.metric}, ${one.machine}, ${one.toolchain}`;
  const head = (one) => {
    document.title = `${one.case} · ${document.documentElement.dataset.project}`;
    dom.fill("name", ...dom.name(one.case));
    dom.fill("whose", whose(one));
    const same = catalog.series.filter((other) => other.place === one.place);
    dom.options(dom.find("series"), same.map((other) => [other.id, whose(other)]), one.id);
  };

  const since = ({ since: moment, text }) => moment === null || text.includes(units.day(moment)) ? "" : `since ${units.day(moment)}: `;
  const findings = ({ series }) => {
    const found = series.findings.map((one) => dom.make("li", { class: one.group },
      dom.make("b", {}, `${one.mark} ${one.word}`), ` ${since(one)}${one.text}`));
    const said = series.annotations.map(([since, kind, why]) =>
      dom.make("li", {}, dom.make("b", {}, `⚑ ${kind}`), ` ${units.day(since)}: ${why}`));
    dom.fill("findings", ...found, ...said);
    if (!found.length) dom.find("findings").prepend(dom.make("li", {}, "· steady"));
  };

  const profiles = ({ series }) => {
    dom.find("profiles").hidden = !series.profiles.length;
    dom.find("profiles").lastElementChild.replaceChildren(...series.profiles.map(([night, text], place) =>
      dom.make("details", { open: place ? false : "" }, dom.make("summary", {}, `The night of ${units.day(night)}`),
        dom.make("pre", { tabindex: "0", "aria-label": "Profiles of both programs" }, text))));
  };

  const listed = () => {
    const figure = (value) => units.shown(value, view.unit);
    const rows = view.nights.map((one, place) => [String(place), `${units.day(one.started)}  ${figure(view.series.values[place])}`]);
    dom.options(dom.find("night"), rows.reverse(), String(view.night));
    const table = view.nights.map((one, place) => dom.make("tr", {},
      dom.make("th", { scope: "row" }, units.moment(one.started)),
      dom.make("td", {}, figure(view.series.values[place])),
      dom.make("td", {}, view.places[place].map((process) => figure(view.series.processes[process])).join(", ")),
      dom.make("td", {}, dom.make("code", {}, one.revision.slice(0, 12) || "unknown"))));
    dom.find("nights").tBodies[0].replaceChildren(...table.reverse());
  };

  /** The processes of the chosen night; the median is chosen by an empty value. */
  const processes = () => {
    const rows = view.places[view.night].map((process, i) => [String(i + 1),
      `process ${i + 1}: ${units.shown(view.series.processes[process], view.unit)}`]);
    dom.find("processes").hidden = rows.length < 2;
    if (!(Number(view.process) <= rows.length)) view.process = "";
    dom.options(dom.find("process"), [["", `the median of ${night.medianOf(view)}`], ...rows], view.process);
  };

  const address = () => ({
    series: view.id, night: view.night === view.nights.length - 1 ? "" : view.nights[view.night].id,
    process: view.process, roofs: view.roofs ? "1" : "", each: view.each ? "1" : "" });

  const step = () => {
    dom.find("earlier").disabled = view.night === 0;
    dom.find("later").disabled = view.night === view.nights.length - 1;
    dom.find("roofline").href = link.to("roofline", { night: view.nights[view.night].id });
    processes();
  };

  const draw = async () => {
    step();
    const measured = view.series.values.some((value) => value !== null);
    dom.find("history").hidden = !measured;
    await Promise.all([measured && charts.draw("history", historyChart.made(view)), night.show(view)]);
  };
  const choose = async (place) => {
    if (place === view.night || !view.nights[place]) return;
    view.night = place;
    view.process = "";
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
    const nights = series.nights.map((place) => catalog.nights[place]);
    const asked = nights.findIndex((one) => one.id === wanted.night);
    let next = 0;
    const places = series.sizes.map((size) => Array.from({ length: size }, () => next++));  // of processes in lists of all
    series.label = one.metric;
    view = { ...one, catalog, series, details, nights, places, unit: catalog.metric(one.metric).unit,
      night: asked < 0 ? nights.length - 1 : asked, process: /^[1-9]\d*$/.test(wanted.process) ? wanted.process : "",
      roofs: wanted.roofs === "1", each: wanted.each === "1", choose };
    dom.say("");
    head(one);
    findings(view);
    profiles(view);
    listed();
    dom.find("roofs").checked = view.roofs;
    dom.find("each").checked = view.each;
    dom.find("all-processes").hidden = series.processes.length === nights.length;
    dom.find("bounds").hidden = !Object.keys(series.bounds).length;
    dom.fill("command", series.command.join("\n") || "This run does not say by which command, or the name of the case is unsafe in a shell.");
    await draw();
    dom.ready("usable");
  };

  dom.find("series").addEventListener("change", ({ target }) => { location.hash = new URLSearchParams({ series: target.value }); });
  dom.find("night").addEventListener("change", ({ target }) => choose(Number(target.value)));
  dom.find("earlier").addEventListener("click", () => choose(view.night - 1));
  dom.find("later").addEventListener("click", () => choose(view.night + 1));
  dom.find("whole").addEventListener("click", draw);
  dom.find("process").addEventListener("change", ({ target }) => {
    view.process = target.value;
    link.write(address());
    return night.show(view);
  });
  for (const name of ["roofs", "each"]) {
    dom.find(name).addEventListener("change", ({ target }) => {
      view[name] = target.checked;
      link.write(address());
      return draw();
    });
  }
  await link.follow(show);
})().catch((error) => dom.say(`This page cannot be shown: ${error.message}`));
