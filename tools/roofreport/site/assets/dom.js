// SPDX-License-Identifier: Apache-2.0
"use strict";
// Elements out of data. Whatever is not an element goes in as text; nothing here reads markup.
const dom = (() => {
  /** `attributes`: of the element; `on…` are listeners, and false leaves one out. */
  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
    }
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
  };
  const find = (id) => document.getElementById(id);
  const fill = (id, ...children) => { find(id).replaceChildren(...children); };
  const options = (select, rows, chosen) => {
    select.replaceChildren(...rows.map(([value, text]) => make("option", { value }, text)));
    select.value = chosen;
  };
  /** A list of names and what they are. */
  const facts = (rows) => make("dl", {}, ...rows.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
  /** Shows the reason why a page is empty. */
  const say = (text) => { fill("said", text); };
  /** Marks a state of the page, for tests and measurements. */
  const ready = (what) => {
    document.documentElement.dataset[what] = "yes";
    performance.mark(what);
  };
  return { make, find, fill, options, facts, say, ready };
})();
