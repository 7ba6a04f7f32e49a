"use strict";
(() => {
  document.documentElement.classList.add("script");
  const tip = document.getElementById("tip");
  const data = {};
  for (const s of document.querySelectorAll("script[data-for]")) data[s.dataset.for] = JSON.parse(s.textContent);
  const digits = (x) => { const a = Math.abs(x); return String(+x.toFixed(a >= 100 ? 0 : a >= 10 ? 1 : 2)); };
  const formats = {
    us: (v) => v >= 1e6 ? digits(v / 1e6) + " s" : v >= 1e3 ? digits(v / 1e3) + " ms" : digits(v) + " µs",
    bytes: (v) => { const units = ["B", "KiB", "MiB", "GiB", "TiB"]; let i = 0; while (v >= 1000 && i < 4) { v /= 1024; i++; } return digits(v) + " " + units[i]; },
    count: (v) => v >= 1000 ? Math.round(v).toLocaleString("en-US") : digits(v),
  };
  const svgNS = "http://www.w3.org/2000/svg";
  const make = (svg, name, attributes) => {
    const e = document.createElementNS(svgNS, name);
    for (const k in attributes) e.setAttribute(k, attributes[k]);
    svg.appendChild(e);
    return e;
  };
  // What of the time is shown: 0 to 1 is all.
  let from = 0, to = 1;
  const number = (svg, name) => Number(svg.dataset[name]);
  const place = (svg, event) => {
    const box = svg.getBoundingClientRect(), view = svg.viewBox.baseVal;
    return { x: (event.clientX - box.left) * view.width / box.width, y: (event.clientY - box.top) * view.height / box.height };
  };
  const value = (svg, x) => {
    const left = number(svg, "left"), right = number(svg, "right"), min = number(svg, "min"), max = number(svg, "max");
    let part = (x - left) / (right - left);
    if (svg.dataset.zoom) part = from + part * (to - from);
    if (svg.dataset.kind === "tail") {
      const low = -Math.log10(100 - min), high = -Math.log10(100 - max);
      return 100 - Math.pow(10, -(low + part * (high - low)));
    }
    return min + part * (max - min);
  };
  const nearest = (xs, x) => {
    let best = 0;
    for (let i = 1; i < xs.length; i++) if (Math.abs(xs[i] - x) < Math.abs(xs[best] - x)) best = i;
    return best;
  };
  const describe = (svg, at) => {
    const d = data[svg.dataset.chart], x = value(svg, at.x), format = formats[d.unit];
    if (d.heat) {
      const c = d.heat.find((c) => x >= c.from && x < c.to);
      const part = (number(svg, "bottom") - at.y) / (number(svg, "bottom") - number(svg, "top"));
      if (!c || part < 0 || part >= 1) return "";
      const i = Math.floor(part * c.values.length);
      const hash = i.toString(16).toUpperCase().padStart(2, "0");
      return `${digits(c.from)} to ${digits(c.to)} s, keys ${hash}…\n${format(c.values[i])} operations a second`;
    }
    const rows = [];
    let head = "";
    for (const l of d.lines) {
      const i = nearest(l.x, x);
      if (l.y[i] === null || l.y[i] === undefined) continue;
      if (!head) head = d.x === "%" ? `${+l.x[i].toPrecision(7)} %` : `${digits(l.x[i])} s`;
      rows.push(`${l.name}  ${format(l.y[i])}`);
    }
    return rows.length ? head + "\n" + rows.join("\n") : "";
  };
  const charts = [...document.querySelectorAll("svg[data-chart]")].filter((s) => data[s.dataset.chart]);
  const labels = (svg) => {
    const g = svg.querySelector(".xlabels");
    if (!svg.dataset.zoom || !g) return;
    const left = number(svg, "left"), right = number(svg, "right"), y = number(svg, "labels");
    const low = value(svg, left), high = value(svg, right);
    const steps = [.1, .2, .5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400];
    const step = steps.find((s) => s >= (high - low) / ((right - left) / 70)) || 14400;
    g.replaceChildren();
    for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + 1e-9; v += step) {
      const x = left + (v - low) / (high - low) * (right - left);
      make(g, "path", { class: "g-axis", d: `M${x} ${y - 14}V${y - 10}` });
      make(g, "text", { x, y: y + 1, "font-size": 11, "text-anchor": "middle", class: "t-soft" }).textContent = digits(v);
    }
  };
  const zoom = (a, b) => {
    from = a; to = b;
    for (const svg of charts) {
      if (!svg.dataset.zoom) continue;
      const left = number(svg, "left"), width = number(svg, "right") - left;
      for (const z of svg.querySelectorAll("svg.zoom")) {
        const y = z.getAttribute("y"), h = z.getAttribute("height");
        z.setAttribute("viewBox", `${left + from * width} ${y} ${(to - from) * width} ${h}`);
      }
      labels(svg);
    }
  };
  for (const svg of charts) {
    const top = number(svg, "top"), bottom = number(svg, "bottom"), left = number(svg, "left"), right = number(svg, "right");
    let cross = null, pick = null, start = null;
    const hide = () => { tip.hidden = true; if (cross) { cross.remove(); cross = null; } };
    svg.addEventListener("pointermove", (event) => {
      const at = place(svg, event);
      if (start !== null) {
        const x = Math.min(Math.max(at.x, left), right);
        pick = pick || make(svg, "rect", { class: "pick", y: top, height: bottom - top });
        pick.setAttribute("x", Math.min(start, x));
        pick.setAttribute("width", Math.abs(x - start));
      }
      const text = at.x >= left && at.x <= right && at.y >= top && at.y <= bottom ? describe(svg, at) : "";
      if (!text) { hide(); return; }
      cross = cross || make(svg, "path", { class: "cross" });
      cross.setAttribute("d", `M${at.x} ${top}V${bottom}`);
      tip.textContent = text;
      tip.hidden = false;
      const w = tip.offsetWidth, h = tip.offsetHeight;
      tip.style.left = Math.max(4, event.clientX + 14 + w > innerWidth ? event.clientX - w - 14 : event.clientX + 14) + "px";
      tip.style.top = Math.max(4, Math.min(event.clientY + 14, innerHeight - h - 4)) + "px";
    });
    svg.addEventListener("pointerleave", hide);
    for (const key of svg.querySelectorAll(".key[data-line]")) {
      const toggle = () => {
        const off = key.classList.toggle("off");
        key.setAttribute("aria-pressed", !off);
        for (const g of svg.querySelectorAll(".zoom g")) if (g.dataset.line === key.dataset.line) g.style.display = off ? "none" : "";
      };
      svg.setAttribute("role", "group"); // a picture would hide the names from screen readers
      key.setAttribute("tabindex", 0);
      key.setAttribute("role", "button");
      key.setAttribute("aria-pressed", true);
      key.addEventListener("click", toggle);
      key.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); toggle(); } });
    }
    if (!svg.dataset.zoom) continue;
    svg.addEventListener("pointerdown", (event) => {
      const at = place(svg, event);
      if (event.pointerType === "mouse" && at.x >= left && at.x <= right && at.y >= top && at.y <= bottom) { start = at.x; event.preventDefault(); }
    });
    addEventListener("pointerup", (event) => {
      if (start === null) return;
      const x = Math.min(Math.max(place(svg, event).x, left), right), a = Math.min(start, x), b = Math.max(start, x), width = right - left;
      start = null;
      if (pick) { pick.remove(); pick = null; }
      if (b - a > 6) zoom(from + (a - left) / width * (to - from), from + (b - left) / width * (to - from));
    });
    svg.addEventListener("dblclick", () => zoom(0, 1));
  }
  addEventListener("keydown", (event) => { if (event.key === "Escape") zoom(0, 1); });
})();
