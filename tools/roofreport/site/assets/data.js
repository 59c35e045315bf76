// SPDX-License-Identifier: Apache-2.0
"use strict";
// Data comes as scripts, which a page from a disk may load while it may not fetch: each calls received().
const known = new Map();
function received(name, value) { known.set(name, value); }

const data = (() => {
  const asked = new Map();
  const PARTS = /^[a-z]+(\/[0-9A-Za-z]{1,64})?$/;

  /** The value of data/`name`.js; rejects where there is none. */
  const load = (name) => {
    if (!PARTS.test(name)) return Promise.reject(new Error("this site has no such data"));
    if (!asked.has(name)) {
      asked.set(name, new Promise((resolve, reject) => {
        const script = document.createElement("script");
        script.src = `data/${name}.js`;
        script.onload = () => known.has(name) ? resolve(known.get(name)) : reject(new Error(`${script.src} is damaged`));
        script.onerror = () => reject(new Error(`${script.src} is missing`));
        document.head.append(script);
      }));
    }
    return asked.get(name);
  };

  /** The rows of data/index.js, which are lists to be short, under their names. */
  const catalog = async () => {
    const raw = await load("index");
    const whose = (machine, toolchain) => ({ machine: raw.machines[machine][1], toolchain: raw.toolchains[toolchain][1],
      environment: `${machine} ${toolchain}` });
    const nights = raw.nights.map(([id, started, revision, machine, toolchain], place) =>
      ({ place, id, started, revision, ...whose(machine, toolchain) }));
    const series = raw.series.map(([id, place, metric, machine, toolchain]) =>
      ({ id, case: raw.cases[place], family: raw.families[place], place, metric, ...whose(machine, toolchain) }));
    return { ...raw, nights, series, metric: (name) => raw.metrics[name] ?? { unit: "", better: "", practical: 0 } };
  };

  return { load, catalog };
})();
