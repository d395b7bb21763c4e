"use strict";
// Sorting, downloads, the colour scheme, zooming and what lies under the pointer. The page reads well without it.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const tip = document.getElementById("tip");
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  // Colour scheme: the system's until the button is pressed.
  document.getElementById("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    root.dataset.theme = (root.dataset.theme || system) === "dark" ? "light" : "dark";
  });

  // Tables: numbers by value, words by alphabet.
  const order = (cell) => {
    const number = cell.querySelector("data");
    const text = number ? number.value : "order" in cell.dataset ? cell.dataset.order : cell.textContent;
    return text !== "" && Number.isFinite(Number(text)) ? Number(text) : text;
  };
  const compare = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return a - b;
    if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
    return a.localeCompare(b);
  };
  for (const button of all("th .sort")) {
    button.addEventListener("click", () => {
      const head = button.closest("th");
      const body = head.closest("table").tBodies[0];
      const rising = head.getAttribute("aria-sort") === "descending";
      const column = head.cellIndex;
      const rows = [...body.rows].map((row) => ({ row, key: order(row.cells[column]) }));
      rows.sort((x, y) => (rising ? 1 : -1) * compare(x.key, y.key));
      for (const other of all("th", head.parentNode)) other.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", rising ? "ascending" : "descending");
      body.append(...rows.map((entry) => entry.row));
    });
  }

  // Downloads, made from the data in the page.
  const save = (name, type, text) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  const quoted = (value) => {
    const text = value === null ? "" : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  for (const button of all("[data-csv]")) {
    button.addEventListener("click", () => {
      const chart = data.charts[button.dataset.csv];
      const head = chart.columns.map((column) => column.name.replaceAll(" ", "_") + column.unit);
      const lines = [head, ...chart.rows].map((row) => row.map(quoted).join(","));
      save(`${button.dataset.csv}.csv`, "text/csv", lines.join("\r\n") + "\r\n");
    });
  }
  for (const button of all("[data-json]")) {
    button.addEventListener("click", () => save("result.json", "application/json", JSON.stringify(data.result, null, 2)));
  }

  // Numbers in tips.
  const scaled = (value, steps) => {
    const [scale, name] = steps.find(([s]) => Math.abs(value) >= 0.9995 * s) || steps[steps.length - 1];
    return `${Number((value / scale).toPrecision(4))} ${name}`;
  };
  const seconds = (value) => (value === 0 ? "0 s" : scaled(value, [[1, "s"], [1e-3, "ms"], [1e-6, "us"], [1e-9, "ns"]]));
  const bytes = (value) => scaled(value, [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]]);
  const shown = (value, unit) => {
    if (typeof value !== "number") return value;
    return unit === "_s" ? seconds(value) : unit === "_bytes" ? bytes(value) : Number(value.toPrecision(5));
  };
  const words = (chart, row) => chart.columns.map((column, i) => [column, row[i]])
    .filter(([, value]) => value !== null && value !== 0)
    .map(([column, value]) => `${column.name}: ${shown(value, column.unit)}`).join("\n");

  // What lies under the pointer.
  const say = (event, text) => {
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8))}px`;
    tip.style.top = `${Math.max(4, Math.min(event.clientY + 14, innerHeight - box.height - 8))}px`;
  };
  const place = (svg, event) => {
    const box = svg.getBoundingClientRect();
    const view = svg.viewBox.baseVal;
    return [(event.clientX - box.left) / box.width * view.width, (event.clientY - box.top) / box.height * view.height];
  };
  const numbers = (text) => text.split(" ").map(Number);

  const cellUnder = (svg, x, y) => {
    const { columns, lines, left, cell, tops } = svg.dataset;
    const [width, height] = numbers(cell);
    const column = Math.floor((x - Number(left)) / width);
    if (column < 0 || column >= Number(columns)) return -1;
    for (const top of numbers(tops)) {
      const line = Math.floor((y - top) / height);
      if (y >= top && line < Number(lines)) return line * Number(columns) + column;
    }
    return -1;
  };
  for (const svg of all("[data-hover=cells]")) {
    const chart = data.charts[svg.dataset.chart];
    svg.addEventListener("pointermove", (event) => {
      const row = chart.rows[cellUnder(svg, ...place(svg, event))];
      say(event, row && row[1] !== null ? words(chart, row) : "");
    });
    svg.addEventListener("pointerleave", () => say(null, ""));
  }

  // Strips: an inner view box that is narrowed and moved.
  for (const svg of all("[data-hover=strips]")) {
    const chart = data.charts[svg.dataset.chart];
    const plot = svg.querySelector(".plot");
    const whole = plot.viewBox.baseVal.width;
    const height = plot.viewBox.baseVal.height;
    const duration = Number(svg.dataset.duration);
    const tops = numbers(svg.dataset.tops);
    const left = Number(svg.dataset.left);
    const right = Number(svg.dataset.right);
    const lines = new Map();
    for (const row of chart.rows) {
      if (!lines.has(row[0])) lines.set(row[0], []);
      lines.get(row[0]).push(row);
    }
    const names = svg.dataset.names.split("|");
    let from = 0;
    let share = 1;

    const show = () => {
      share = Math.min(1, Math.max(1e-5, share));
      from = Math.min(1 - share, Math.max(0, from));
      plot.setAttribute("viewBox", `${from * whole} 0 ${share * whole} ${height}`);
      all(".time", svg).forEach((text, i, texts) => {
        text.textContent = seconds((from + share * i / (texts.length - 1)) * duration);
      });
    };
    const zoom = (factor, at = 0.5) => {
      const next = Math.min(1, Math.max(1e-5, share * factor));
      from += (share - next) * at;
      share = next;
      show();
    };
    const act = {
      in: () => zoom(0.5), out: () => zoom(2), all: () => { from = 0; share = 1; show(); },
      left: () => { from -= share * 0.4; show(); }, right: () => { from += share * 0.4; show(); },
    };
    const keys = { "+": "in", "=": "in", "-": "out", "0": "all", ArrowLeft: "left", ArrowRight: "right" };
    for (const button of all("[data-zoom]", svg.closest("figure"))) {
      button.addEventListener("click", () => act[button.dataset.zoom]());
    }
    svg.addEventListener("keydown", (event) => {
      if (!(event.key in keys) || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      act[keys[event.key]]();
    });
    svg.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.shiftKey) return;
      event.preventDefault();
      const [x] = place(svg, event);
      zoom((event.deltaY || event.deltaX) > 0 ? 1.25 : 0.8, (x - left) / (right - left));
    }, { passive: false });
    let dragged = null;
    svg.addEventListener("pointerdown", (event) => {
      if (event.pointerType === "mouse") dragged = { x: place(svg, event)[0], from };
    });
    addEventListener("pointerup", () => { dragged = null; });

    svg.addEventListener("pointermove", (event) => {
      const [x, y] = place(svg, event);
      if (dragged) {
        from = dragged.from - (x - dragged.x) / (right - left) * share;
        show();
        return;
      }
      const line = tops.findIndex((top, i) => y >= top && y < tops[i + 1]);
      const at = (from + (x - left) / (right - left) * share) * duration;
      const row = x < left || line < 0 ? null : (lines.get(names[line]) || []).find((r) => at >= r[1] && at < r[2]);
      say(event, row ? words(chart, row) : "");
    });
    svg.addEventListener("pointerleave", () => say(null, ""));
  }
})();
