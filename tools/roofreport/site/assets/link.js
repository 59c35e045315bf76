// SPDX-License-Identifier: Apache-2.0
"use strict";
// The state of a page is in its address, after the #, so that a view can be shared.
const link = (() => {
  const read = () => Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  const text = (state) => {
    const kept = Object.entries(state).filter(([, value]) => value !== "" && value !== undefined && value !== null);
    return new URLSearchParams(kept).toString();
  };
  /** The address of a view. */
  const to = (page, state) => `${page}.html#${text(state)}`;
  const write = (state) => {
    const wanted = `#${text(state)}`;
    if (wanted !== (location.hash || "#")) history.replaceState(null, "", wanted);
  };
  /** Calls `show` with what the address says, now and whenever it changes. */
  const follow = (show) => {
    window.addEventListener("hashchange", () => show(read()));
    return show(read());
  };
  return { read, to, write, follow };
})();
