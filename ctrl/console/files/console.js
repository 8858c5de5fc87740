// The page is requested again whenever the server says that it may have changed. All else works without this script.
"use strict";
(() => {
  const button = document.getElementById("live");
  if (!button || !window.EventSource) return;
  let stream = null, busy = false, again = false;
  const identified = (root) => [...root.querySelectorAll("[id]")];
  const focusable = (root) => [...root.querySelectorAll("a, button, select, input:not([type=hidden]), summary")];
  const nameOf = (e) => e.id || e.tagName + (e.getAttribute("href") || "") + e.textContent;
  const refresh = async () => {
    if (busy) { again = true; return; }
    if (document.hidden) return;
    const active = document.activeElement;
    if (active && active.matches("main select, main input:not([type=hidden])")) return;
    busy = true;
    try {
      const response = await fetch(location.href, { headers: { Accept: "text/html" }, credentials: "same-origin" });
      if (!response.ok) return;
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      const from = page.querySelector("main"), to = document.querySelector("main");
      if (from.innerHTML === to.innerHTML) return;
      const open = new Set(identified(to).filter((e) => e.open).map((e) => e.id));
      const at = focusable(to).indexOf(document.activeElement);
      const focus = at < 0 ? "" : nameOf(document.activeElement);
      for (const e of identified(from)) if (open.has(e.id)) e.setAttribute("open", "");
      to.replaceChildren(...from.childNodes);
      const nav = document.querySelector("nav"), newNav = page.querySelector("nav");
      if (newNav && !nav.contains(document.activeElement)) nav.replaceChildren(...newNav.childNodes);
      if (at >= 0) {
        const now = focusable(to);
        const same = now.find((e) => nameOf(e) === focus) || now[Math.min(at, now.length - 1)] || to;
        same.focus({ preventScroll: true });
      }
    } catch { /* the server is gone: the stream tries again */ } finally {
      busy = false;
      if (again) { again = false; setTimeout(refresh, 1000); }
    }
  };
  const start = () => {
    stream = new EventSource("/console/live");
    stream.addEventListener("change", refresh);
    button.setAttribute("aria-pressed", "true");
  };
  const stop = () => {
    stream.close();
    stream = null;
    button.setAttribute("aria-pressed", "false");
  };
  button.hidden = false;
  button.addEventListener("click", () => (stream ? stop() : start()));
  document.addEventListener("visibilitychange", refresh);
  start();
})();
