// SPDX-License-Identifier: Apache-2.0
"use strict";
// The rows are in the page already; this filters and sorts them.
(() => {
  const element = dom.find("series");
  const box = dom.find("q");
  const choosers = ["status", "family", "machine", "metric"].map(dom.find);
  const order = [...element.tBodies[0].rows];
  const texts = new Map(order.map((row) => [row, row.dataset.text.toLowerCase()]));
  let by = "";

  const state = () => ({ q: box.value, ...Object.fromEntries(choosers.map((one) => [one.id, one.value])), sort: by });
  const apply = () => {
    const fits = table.matcher(box.value);
    const chosen = choosers.filter((one) => one.value !== "");
    let shown = 0;
    for (const row of order) {
      row.hidden = !(chosen.every((one) => row.dataset[one.id] === one.value) && fits(texts.get(row)));
      shown += !row.hidden;
    }
    table.families(dom.find("families"), order.filter((row) => !row.hidden));
    dom.fill("count", `${shown} of ${order.length} series`);
    for (const chip of document.querySelectorAll(".chips button")) {
      chip.setAttribute("aria-pressed", String(chip.value === dom.find("status").value));
    }
  };
  const changed = () => { apply(); link.write(state()); };
  const show = (wanted) => {
    box.value = wanted.q ?? "";
    for (const one of choosers) {
      const known = [...one.options].some((option) => option.value === wanted[one.id]);
      one.value = known ? wanted[one.id] : "";
    }
    by = wanted.sort ?? "";
    element.tBodies[0].append(...order);
    for (const header of element.tHead.rows[0].cells) header.removeAttribute("aria-sort");
    if (by) table.sort(element, by);
    apply();
  };

  box.addEventListener("input", changed);
  box.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && box.value) { event.preventDefault(); box.value = ""; changed(); }
  });
  for (const one of choosers) one.addEventListener("change", changed);
  for (const chip of document.querySelectorAll(".chips button")) {
    chip.addEventListener("click", () => {
      const chooser = dom.find("status");
      chooser.value = chooser.value === chip.value ? "" : chip.value;
      changed();
    });
  }
  // A page from a disk does not change any more; how old it is shows when it is read.
  const HOURS = 36e5, age = dom.find("age"), hours = age ? (Date.now() - Number(age.dataset.started)) / HOURS : 0;
  if (hours > 36) age.textContent = `⚠ That is ${units.counted(Math.floor(hours / 24), "day")} ago: a night is missing.`;

  table.sorting(element, (wanted) => { by = wanted; table.sort(element, by); link.write(state()); });
  table.walking(element, box);
  link.follow(show);
  dom.ready("usable");
})();
