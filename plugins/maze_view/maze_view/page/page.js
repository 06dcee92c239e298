"use strict";
// Everything that is shown comes from the data block and is set as text: no name in it is ever parsed as HTML.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a8f98"];
  const AXES = ["env_steps", "seconds", "updates", "epoch"];

  const colour = (index) => COLOURS[index % COLOURS.length];

  /** Return an HTML element; children are elements or texts. */
  function node(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  /** Return an SVG element. */
  function shape(tag, attributes = {}, text = "") {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.textContent = text;
    return made;
  }

  /** Return a select; `pick` is called with the chosen value. */
  function choose(options, chosen, title, pick) {
    const made = node("select", { "aria-label": title });
    for (const [value, text] of options) made.append(node("option", { value }, text));
    made.value = chosen;
    made.addEventListener("change", () => pick(made.value));
    return made;
  }

  function number(value) {
    if (value === null || value === undefined) return "–";
    const size = Math.abs(value);
    if (size !== 0 && (size < 1e-4 || size >= 1e12)) return value.toExponential(3);
    return Number(value.toPrecision(size >= 1e5 ? 12 : 5)).toLocaleString("en", { maximumFractionDigits: 8 });
  }

  /** Return a short text for a value on an axis whose marks are `step` apart. */
  function brief(value, step) {
    const size = Math.abs(value);
    const digits = Math.min(12, Math.max(4, Math.ceil(Math.log10(Math.max(size, step) / step)) + 1));
    for (const [unit, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
      if (size >= unit) return `${Number((value / unit).toPrecision(digits))}${letter}`;
    }
    return size !== 0 && size < 1e-3 ? value.toExponential(1) : String(Number(value.toPrecision(digits)));
  }

  /** Return the least and the largest number of some lists; null where there is none. */
  function range(lists) {
    let low = Infinity, high = -Infinity;
    for (const list of lists) {
      for (const value of list || []) {
        if (value === null) continue;
        if (value < low) low = value;
        if (value > high) high = value;
      }
    }
    return low <= high ? [low, high] : null;
  }

  /** Return round numbers between two. */
  function ticks(low, high, count) {
    const raw = (high - low) / count;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = power * [1, 2, 5, 10].find((each) => each * power >= raw);
    const found = [];
    for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-9 && found.length < 20; value += step) {
      found.push(Math.abs(value) < step * 1e-9 ? 0 : value);
    }
    return found;
  }

  /** Return the index of the value nearest to x in a list that rises. */
  function nearest(list, x) {
    let low = 0, high = list.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (list[middle] < x) low = middle; else high = middle;
    }
    return Math.abs(list[low] - x) <= Math.abs(list[high] - x) ? low : high;
  }

  /**
   * Return a chart of lines {label, colour, x, y, low, high}. Hovering reads values; `pick` is called with x on a click
   * or drag; `mark(x)` on the result moves a second cursor.
   */
  function chart(lines, { height = 230, axis = "", pick = null } = {}) {
    const width = 640, left = 58, right = 14, top = 10, bottom = 32;
    const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
    const readout = node("div", { class: "readout" });
    const element = node("div", { class: "chart" }, svg, readout);
    const xs = range(lines.map((line) => line.x));
    const ys = range(lines.flatMap((line) => [line.y, line.low, line.high]));
    if (xs === null || ys === null) {
      svg.append(shape("text", { x: width / 2, y: height / 2, "text-anchor": "middle" }, "no values"));
      return { element, mark: () => {} };
    }
    for (const ends of [xs, ys]) {
      const gap = ends[1] - ends[0] || Math.abs(ends[0]) * 0.1 || 1;
      if (ends === ys || ends[0] === ends[1]) { ends[0] -= gap * 0.05; ends[1] += gap * 0.05; }
    }
    const px = (x) => left + ((x - xs[0]) / (xs[1] - xs[0])) * (width - left - right);
    const py = (y) => height - bottom - ((y - ys[0]) / (ys[1] - ys[0])) * (height - top - bottom);
    const [downs, acrosses] = [ticks(...ys, 5), ticks(...xs, 6)];
    for (const y of downs) {
      svg.append(shape("line", { x1: left, x2: width - right, y1: py(y), y2: py(y), class: "grid" }));
      svg.append(shape("text", { x: left - 6, y: py(y) + 4, "text-anchor": "end" }, brief(y, downs[1] - downs[0] || 1)));
    }
    for (const x of acrosses) {
      svg.append(shape("text", { x: px(x), y: height - bottom + 15, "text-anchor": "middle" }, brief(x, acrosses[1] - acrosses[0] || 1)));
    }
    svg.append(shape("text", { x: width - right, y: height - 3, "text-anchor": "end" }, axis));
    for (const line of lines) draw(svg, line, px, py);
    const cursor = shape("line", { y1: top, y2: height - bottom, class: "cursor", visibility: "hidden" });
    const marked = cursor.cloneNode();
    const dots = lines.map((line) => shape("circle", { r: 3.5, fill: line.colour, visibility: "hidden" }));
    svg.append(cursor, marked, ...dots);
    const place = (mark, x) => {
      for (const end of ["x1", "x2"]) mark.setAttribute(end, px(x));
      mark.setAttribute("visibility", "visible");
    };
    const read = (x) => {
      readout.replaceChildren();
      lines.forEach((line, index) => {
        const at = nearest(line.x, x);
        const value = line.y[at];
        dots[index].setAttribute("visibility", value === null || value === undefined ? "hidden" : "visible");
        if (value === null || value === undefined) return;
        dots[index].setAttribute("cx", px(line.x[at]));
        dots[index].setAttribute("cy", py(value));
        const band = line.low && line.low[at] !== null ? ` (${number(line.low[at])} … ${number(line.high[at])})` : "";
        const text = node("span", {}, `${line.label}: ${number(value)}${band} at ${number(line.x[at])}`);
        text.style.color = line.colour;
        readout.append(text);
      });
    };
    const under = (event) => {
      const box = svg.getBoundingClientRect();
      const share = (((event.clientX - box.left) / box.width) * width - left) / (width - left - right);
      return xs[0] + Math.min(1, Math.max(0, share)) * (xs[1] - xs[0]);
    };
    svg.addEventListener("pointermove", (event) => {
      place(cursor, under(event));
      read(under(event));
      if (pick && event.buttons) pick(under(event));
    });
    svg.addEventListener("pointerdown", (event) => pick && pick(under(event)));
    svg.addEventListener("pointerleave", () => {
      for (const each of [cursor, ...dots]) each.setAttribute("visibility", "hidden");
      readout.replaceChildren();
    });
    return { element, mark: (x) => place(marked, x) };
  }

  /** Draw one line with its band; a missing value interrupts it. */
  function draw(svg, line, px, py) {
    const known = line.x.map((x, at) => at).filter((at) => line.y[at] !== null && line.y[at] !== undefined);
    const band = line.low ? known.filter((at) => line.low[at] !== null && line.high[at] !== null) : [];
    if (band.length > 1) {
      const there = band.map((at) => `${px(line.x[at]).toFixed(1)},${py(line.high[at]).toFixed(1)}`);
      const back = band.reverse().map((at) => `${px(line.x[at]).toFixed(1)},${py(line.low[at]).toFixed(1)}`);
      svg.append(shape("polygon", { points: [...there, ...back].join(" "), fill: line.colour, opacity: 0.15 }));
    }
    const path = known.map((at, index) => {
      const begins = index === 0 || known[index - 1] !== at - 1;
      return `${begins ? "M" : "L"}${px(line.x[at]).toFixed(1)} ${py(line.y[at]).toFixed(1)}`;
    });
    svg.append(shape("path", { d: path.join(""), fill: "none", stroke: line.colour, "stroke-width": 1.6 }));
    if (known.length === 1) svg.append(shape("circle", { cx: px(line.x[known[0]]), cy: py(line.y[known[0]]), r: 3, fill: line.colour }));
  }

  /** Return the lines of a metric, one for each run that has it; a mean gets the band from its least to its largest. */
  function curves(runs, metric, axis) {
    return runs.map((run, index) => {
      const column = run.curves[metric], x = run.curves[axis];
      if (!column || !x) return null;
      const line = { label: run.name, colour: colour(index), x, y: column };
      const stem = metric.endsWith("_mean") ? metric.slice(0, -5) : null;
      if (stem && run.curves[`${stem}_min`] && run.curves[`${stem}_max`]) {
        line.low = run.curves[`${stem}_min`];
        line.high = run.curves[`${stem}_max`];
      }
      const kept = x.map((value, at) => at).filter((at) => x[at] !== null);
      for (const key of ["x", "y", "low", "high"]) if (line[key]) line[key] = kept.map((at) => line[key][at]);
      return line;
    }).filter((line) => line !== null && line.x.length > 0);
  }

  function curvesSection(runs) {
    const names = [...new Set(runs.flatMap((run) => Object.keys(run.curves)))];
    const metrics = names.filter((name) => !AXES.includes(name));
    const axes = AXES.filter((name) => names.includes(name));
    if (metrics.length === 0 || axes.length === 0) return null;
    let axis = axes[0];
    const losses = metrics.filter((name) => name.startsWith("loss/"));
    const wanted = ["eval/return_mean", "train/return_mean", ...losses, "train/length_median", ...metrics];
    const shown = [...new Set(wanted)].filter((name) => metrics.includes(name)).slice(0, 4);
    const grid = node("div", { class: "charts" });
    const redraw = () => grid.replaceChildren(...shown.map((metric, slot) => {
      const select = choose(metrics.map((name) => [name, name]), metric, "metric", (name) => { shown[slot] = name; redraw(); });
      return node("div", {}, select, chart(curves(runs, metric, axis), { axis }).element);
    }));
    redraw();
    const legend = node("div", { class: "legend" });
    runs.forEach((run, index) => {
      const swatch = node("span", { class: "swatch" });
      swatch.style.background = colour(index);
      legend.append(node("span", {}, swatch, run.name));
    });
    const over = choose(axes.map((name) => [name, name]), axis, "axis", (name) => { axis = name; redraw(); });
    return node("section", { id: "curves" }, node("h2", {}, "Learning curves"), legend, node("div", { class: "bar" }, "over", over), grid);
  }

  function table(head, rows) {
    const made = node("table");
    if (head) made.append(node("tr", {}, ...head.map((text) => node("th", {}, text))));
    for (const row of rows) made.append(node("tr", {}, ...row.map((text) => node("td", {}, text))));
    return made;
  }

  function sourceSection(source) {
    const section = node("section", { class: "source" }, node("h2", {}, source.name));
    for (const note of source.notes) section.append(node("p", { class: "note" }, note));
    const columns = node("div", { class: "columns" });
    columns.append(node("div", {}, node("h3", {}, "Facts"), table(null, source.facts)));
    if (source.changed) {
      const rows = source.changed.length ? table(["setting", "value", "default"], source.changed) : "nothing";
      columns.append(node("div", {}, node("h3", {}, "What differs from the defaults"), rows));
    }
    section.append(columns);
    if (source.network) {
      section.append(node("h3", {}, "Network"), node("img", { class: "network", alt: "the network", src: source.network }));
    }
    if (source.config) section.append(node("h3", {}, "Configuration"), node("pre", {}, source.config));
    return section;
  }

  /** Return the rows of an action leaf at a step: a bar for each choice, or numbers. */
  function actionRows(leaf, step) {
    const taken = leaf.taken[step];
    if (!leaf.sizes) {
      const likely = leaf.likely ? leaf.likely[step] : null;
      const rows = taken.map((value, at) => [String(at), number(value), ...(likely ? [number(likely[at])] : [])]);
      return [table(["entry", "taken", ...(likely ? ["most likely"] : [])], rows)];
    }
    const rows = [];
    const bars = leaf.bars ? leaf.bars[step] : null, mask = leaf.mask ? leaf.mask[step] : null;
    const ends = bars && leaf.unit === "value" ? range([bars.filter((value, at) => !mask || mask[at])]) : null;
    let offset = 0;
    leaf.sizes.forEach((size, member) => {
      for (let choice = 0; choice < size; choice++, offset++) {
        const isTaken = leaf.bits ? taken[member] === 1 : taken[member] === choice;
        const isMasked = mask !== null && !mask[offset];
        const value = bars ? bars[offset] : null;
        const share = !bars || isMasked ? 0 : ends ? (value - ends[0]) / (ends[1] - ends[0] || 1) : value;
        const fill = node("div", { class: "fill" });
        fill.style.width = `${(Math.min(1, Math.max(0, bars ? share : isTaken ? 1 : 0)) * 100).toFixed(1)}%`;
        const name = leaf.bits ? `${member}` : leaf.sizes.length > 1 ? `${member}: ${choice}` : `${choice}`;
        const text = isMasked ? "masked" : bars ? number(value) : isTaken ? "taken" : "";
        const state = `choice${isTaken ? " taken" : ""}${isMasked ? " masked" : ""}`;
        rows.push(node("div", { class: state }, node("span", {}, name), node("div", { class: "track" }, fill), node("span", {}, text)));
      }
    });
    return rows;
  }

  function playerSection(episodes) {
    let episode = null, step = 0, timer = null, charts = [];
    const picture = node("img", { class: "frame", alt: "the environment" });
    const slider = node("input", { type: "range", min: 0, value: 0, "aria-label": "step" });
    const button = node("button", { type: "button" }, "Play");
    const words = node("p", { class: "faint", id: "episode" }), now = node("p", { id: "now" }), events = node("p", { id: "events" });
    const graphs = node("div"), actions = node("div", { id: "actions" }), leaves = node("div", { id: "observations" });

    function show(to) {
      const last = episode.rewards.length;
      step = Math.min(last, Math.max(0, Math.round(to)));
      slider.value = step;
      const frame = episode.frames.filter(([at]) => at <= step).pop();
      picture.hidden = !frame;
      if (frame && picture.src !== frame[1]) picture.src = frame[1];
      const acted = step < last;
      const parts = [`step ${step} of ${episode.length}`, `return so far ${number(episode.sums[step])}`];
      if (acted) parts.push(`raw reward ${number(episode.rewards[step])}`);
      for (const [name, values] of Object.entries(episode.series)) if (acted) parts.push(`${name} ${number(values[step])}`);
      if (!acted) parts.push(episode.rewards.length < episode.length ? "later steps are not in this file" : episode.ended);
      now.textContent = parts.join(" · ");
      const told = acted ? episode.events.filter(([at]) => at === step) : [];
      events.textContent = told.length ? `events: ${told.map(([, name, value]) => `${name} ${number(value)}`).join(", ")}` : "";
      actions.replaceChildren();
      for (const leaf of acted ? episode.actions : []) {
        actions.append(node("h3", {}, `${leaf.name}${leaf.bars ? `: ${leaf.unit}` : ""}`), ...actionRows(leaf, step));
      }
      leaves.replaceChildren();
      for (const leaf of episode.observations) {
        leaves.append(node("h3", {}, leaf.name), node("p", {}, leaf.values[step].map(number).join("   ")));
      }
      for (const each of charts) each.mark(step);
    }

    function open(index) {
      pause();
      episode = episodes[index];
      const steps = episode.rewards.map((value, at) => at);
      slider.max = steps.length;
      const series = [["raw reward", episode.rewards], ...Object.entries(episode.series)];
      charts = series.map(([label, y], at) => chart([{ label, colour: colour(at), x: steps, y }], { height: 140, axis: label, pick: seek }));
      graphs.replaceChildren(...charts.map((each) => each.element));
      const seed = episode.seed === null ? "" : ` · seed ${episode.seed}`;
      const parameters = episode.parameters ? ` · ${episode.parameters}` : "";
      words.textContent = `return ${number(episode.return)} · ${number(episode.length)} steps · ${episode.ended}${seed}${parameters}`;
      show(0);
    }

    const seek = (to) => { pause(); show(to); };
    function pause() {
      clearInterval(timer);
      timer = null;
      button.textContent = "Play";
    }
    function play() {
      if (timer !== null) return pause();
      if (step >= episode.rewards.length) show(0);
      button.textContent = "Pause";
      timer = setInterval(() => (step < episode.rewards.length ? show(step + 1) : pause()), 1000 / Number(speed.value));
    }
    const speed = choose([5, 15, 30, 60].map((each) => [each, `${each} steps/s`]), "30", "speed", () => { if (timer !== null) { pause(); play(); } });
    const which = choose(episodes.map((each, at) => [at, each.title]), "0", "episode", (at) => open(Number(at)));
    slider.addEventListener("input", () => seek(Number(slider.value)));
    button.addEventListener("click", play);

    /** Go to what the address names: #episode=1&step=20. */
    function follow() {
      const asked = new URLSearchParams(location.hash.slice(1));
      const index = Number(asked.get("episode") || 0);
      which.value = index in episodes ? index : 0;
      open(Number(which.value));
      show(Number(asked.get("step")) || 0);
    }
    addEventListener("hashchange", follow);
    follow();
    return node("section", { id: "player" }, node("h2", {}, "Episodes"), node("div", { class: "bar" }, which, speed), words,
      node("div", { class: "bar" }, button, slider), now, events,
      node("div", { class: "stage" }, node("div", {}, picture, graphs), node("div", {}, actions, leaves)));
  }

  document.title = data.title;
  document.querySelector("h1").textContent = data.title;
  document.querySelector("header p").textContent = data.about;
  const episodes = data.sources.flatMap((source) => source.episodes.map((each) => {
    const sums = [0];
    for (const reward of each.rewards) sums.push(sums[sums.length - 1] + reward);
    const title = data.sources.length > 1 ? `${source.name}, ${each.title}` : each.title;
    return { ...each, title, sums };
  }));
  const curved = curvesSection(data.sources.filter((source) => Object.keys(source.curves).length > 0));
  const main = document.querySelector("main");
  if (data.family) {
    const picture = node("img", { class: "network", alt: "runs and their forks", src: data.family });
    main.append(node("section", { id: "family" }, node("h2", {}, "Families of forks"), picture));
  }
  if (curved) main.append(curved);
  if (episodes.length) main.append(playerSection(episodes));
  main.append(...data.sources.map(sourceSection));
})();
