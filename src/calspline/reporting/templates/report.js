
"use strict";
(() => {
  const numbers = JSON.parse(document.getElementById("numbers").textContent);
  const diagram = document.getElementById("diagram");
  const tip = document.getElementById("tip");
  const chart = tip.parentElement;
  const REACH = 28;  // how far from a bin the pointer may be, in pixels
  let asked = null;
  const all = (selector, from = document) => Array.from(from.querySelectorAll(selector));

  for (const element of all(".controls, .keys")) element.hidden = false;

  const choose = {
    scale: (value, figure) => { figure.dataset.scale = value; },
    set: (value) => {
      for (const element of all("[data-set]", diagram)) {
        element.toggleAttribute("hidden", value !== "all" && element.dataset.set !== value);
      }
    },
    view: (value) => {
      for (const element of all(".view", diagram)) element.hidden = element.dataset.view !== value;
    },
  };

  for (const control of all("[data-choose]")) {
    const what = control.dataset.choose;
    control.addEventListener(control.matches("select") ? "change" : "click", () => {
      const figure = control.closest("figure");
      hide();
      choose[what](control.value, figure);
      for (const other of all(`button[data-choose="${what}"]`, figure)) {
        other.setAttribute("aria-pressed", String(other === control));
      }
    });
  }

  for (const box of all("[data-show]")) {
    const show = () => {
      for (const element of all(`[data-layer="${box.dataset.show}"]`, diagram)) {
        element.toggleAttribute("hidden", !box.checked);
      }
    };
    box.addEventListener("change", show);
    show();  // a browser may remember how the boxes were
  }

  function line(label, value) {
    const row = document.createElement("span");
    const name = document.createElement("i");
    name.textContent = label;
    row.append(name, value);
    return row;
  }

  function middle(bin) {
    const box = bin.querySelector(".dot").getBoundingClientRect();
    return { x: box.left + box.width / 2, y: box.top + box.height / 2, shown: box.width > 0 };
  }

  function nearest(event) {
    let found = null;
    let least = REACH;
    for (const bin of all(".bin", chart)) {
      const at = middle(bin);
      const distance = Math.hypot(at.x - event.clientX, at.y - event.clientY);
      if (at.shown && distance < least) {
        found = bin;
        least = distance;
      }
    }
    return found;
  }

  function show(bin) {
    hide();
    asked = bin;
    bin.classList.add("asked");
    const set = Number(bin.parentElement.dataset.set);
    const text = numbers.views[bin.dataset.view][set][bin.dataset.bin];
    const name = document.createElement("b");
    name.textContent = numbers.sets[set];
    tip.replaceChildren(
      name,
      line("mean score", text.given),
      line("observed frequency", text.observed),
      line("interval", text.interval),
      line("rows", text.rows),
      line("scores", text.range),
    );
    tip.hidden = false;
    const dot = middle(bin);
    const box = chart.getBoundingClientRect();
    const left = dot.x - box.left;
    const beside = left > box.width / 2 ? left - tip.offsetWidth - 18 : left + 18;
    const top = dot.y - box.top - tip.offsetHeight / 2;
    tip.style.left = `${Math.max(0, Math.min(beside, box.width - tip.offsetWidth))}px`;
    tip.style.top = `${Math.max(0, top)}px`;
  }

  function hide() {
    tip.hidden = true;
    if (asked) asked.classList.remove("asked");
    asked = null;
  }

  function step(bin, by) {
    const bins = all(".bin", bin.parentElement);
    const next = bins[bins.indexOf(bin) + by];
    if (!next) return;
    for (const one of bins) one.setAttribute("tabindex", one === next ? "0" : "-1");
    next.focus();
  }

  chart.addEventListener("pointermove", (event) => {
    const bin = nearest(event) || (chart.contains(document.activeElement) && document.activeElement.closest(".bin"));
    if (!bin) hide();
    else if (bin !== asked) show(bin);
  });
  chart.addEventListener("pointerleave", () => {
    if (asked !== document.activeElement) hide();
  });
  chart.addEventListener("click", (event) => {
    const bin = nearest(event);
    if (bin) bin.focus();
  });

  for (const bin of all(".bin", chart)) {
    bin.addEventListener("focus", () => show(bin));
    bin.addEventListener("blur", hide);
    bin.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
      if (event.key === "Escape") hide();
      if (by) {
        event.preventDefault();
        step(bin, by);
      }
    });
  }

  const list = document.getElementById("segment-list");
  if (list) {
    const PAGE = 25;
    const field = document.getElementById("segment-search");
    const more = document.getElementById("segment-more");
    const count = document.getElementById("segment-count");
    let rows = Array.from(list.tBodies[0].rows);
    let limit = PAGE;
    const draw = () => {
      const words = field.value.trim().toLowerCase();
      const found = rows.filter((row) => row.dataset.name.toLowerCase().includes(words));
      const shown = new Set(found.slice(0, limit));
      for (const row of rows) row.hidden = !shown.has(row);
      more.hidden = found.length <= limit;
      count.textContent = `${shown.size} of ${found.length} segments`;
    };
    field.addEventListener("input", () => {
      limit = PAGE;
      draw();
    });
    more.addEventListener("click", () => {
      limit *= 4;
      draw();
    });
    for (const button of all("[data-sort]", list)) {
      button.addEventListener("click", () => {
        const key = button.dataset.sort;
        const cell = button.parentElement;
        const first = key === "name" || key === "rank" ? "ascending" : "descending";
        const second = first === "ascending" ? "descending" : "ascending";
        const way = cell.getAttribute("aria-sort") === first ? second : first;
        for (const other of all("[aria-sort]", list)) other.removeAttribute("aria-sort");
        cell.setAttribute("aria-sort", way);
        const sign = way === "ascending" ? 1 : -1;
        const order = key === "name"
          ? (a, b) => a.dataset.name.localeCompare(b.dataset.name, undefined, { numeric: true })
          : (a, b) => Number(a.dataset[key]) - Number(b.dataset[key]);
        rows = rows.sort((a, b) => sign * order(a, b));
        list.tBodies[0].append(...rows);
        draw();
      });
    }
    addEventListener("beforeprint", () => {
      for (const row of rows) row.hidden = false;
    });
    draw();
  }
})();
