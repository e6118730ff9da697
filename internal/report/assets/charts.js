// The pictures of the report. The page comes with its words, its tables and one empty
// box a picture; this file fills the boxes from the JSON beside them. It asks nobody for
// anything. A picture that cannot be drawn says so in its box and leaves the others alone.
//
// To read: the data and the view, the ink, the words, what is drawn around the lines, the
// kinds of picture; then what draws them, the legends, and what moves cursor and zoom.
(() => {
  "use strict";

  const root = document.documentElement;
  const boxes = [...document.querySelectorAll(".plot[data-plot]")];
  const drawn = new Map(); // box -> {box, kind, picture, plot, keys, note, near}
  window.aicrPlots = []; // for the browser tests: nothing here reads it

  // ---- the data and the view ----

  const list = (x) => (Array.isArray(x) ? x : []);
  const known = (x) => Number.isFinite(x);

  const data = read();
  const lanes = list(data.lanes);
  const marks = list(data.marks).filter((m) => known(m?.at));
  // Of two runs, ours is the second.
  const runs = data.against ? [{ ...data.against, ink: "first" }, { ...data, ink: "second" }] : [{ ...data, ink: "" }];
  const two = runs.length > 1;
  const whole = { min: 0, max: highest([...runs.flatMap((r) => [r.fleet?.t, list(r.episodes).map((e) => e.until)]),
    ...lanes.flatMap((l) => [l?.t, l?.powerT])]) || 1 };
  const view = { ...whole }; // what all pictures on the run's time show

  // The sick worker is seen at a glance only where all lanes have the same scales.
  const tops = {
    queue: top(lanes.flatMap((l) => [l?.running, l?.waiting])) || 1,
    rate: top(lanes.map((l) => l?.rate)) || 1,
    power: top(lanes.map((l) => l?.power)),
  };

  function read() {
    try {
      return JSON.parse(document.getElementById("report-data").textContent) || {};
    } catch {
      return {}; // every box then says that it has nothing to show
    }
  }

  function highest(lists) {
    let high = 0;
    for (const l of lists) for (const x of list(l)) if (x > high) high = x;
    return high;
  }

  // top is the round number that an axis may end with, 0 where there is nothing.
  function top(lists) {
    const high = highest(lists);
    if (high === 0) return 0;
    const unit = 10 ** Math.floor(Math.log10(high));
    return unit * [1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8, 10].find((f) => f * unit >= high * 0.999);
  }

  // track makes a list that uPlot can draw: times rise, and what was not measured is null,
  // which breaks the line. A gap with no time of its own comes right after what is before.
  function track({ t, v, least = -Infinity }) {
    const xs = [], ys = [];
    let last = -Infinity;
    list(t).forEach((x, i) => {
      const y = known(v?.[i]) && v[i] >= least ? v[i] : null;
      if (!(known(x) && x > last)) {
        if (y !== null || last === -Infinity) return;
        x = last + 1e-3;
      }
      xs.push(last = x);
      ys.push(y);
    });
    return [xs, ys];
  }

  // ---- the ink ----

  const names = ["ink", "muted", "grid", "panel", "run", "wait", "rate", "power", "stall", "silent", "fail", "note", "first", "second"];
  const font = (px, weight = "") => `${weight} ${Math.round(px)}px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif`;
  const ink = {};   // name -> [r, g, b]
  let paper = false; // it is being printed
  let hatches = {}; // made when first asked for

  // Any colour that CSS knows becomes three numbers, so that it can be thinned. Not every
  // browser has the style of paper in force when it says that it will print: it is looked up.
  function takeInk() {
    const style = getComputedStyle(root), rules = (x) => [...x.cssRules];
    const print = paper && [...document.styleSheets].flatMap(rules).filter((r) => r.media?.mediaText === "print").flatMap(rules)
      .find((r) => r.selectorText === ":root");
    const pen = canvas(1).getContext("2d", { willReadFrequently: true });
    for (const name of names) {
      pen.fillStyle = name === "panel" ? "#fff" : "#555";
      pen.fillStyle = (print && print.style.getPropertyValue("--" + name).trim()) || style.getPropertyValue("--" + name).trim() || pen.fillStyle;
      pen.fillRect(0, 0, 1, 1);
      ink[name] = [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3);
    }
    hatches = {};
  }

  const canvas = (size) => Object.assign(document.createElement("canvas"), { width: size, height: size });
  const colour = (name, part = 1) => `rgba(${ink[name || "ink"]},${part})`;

  // hatch is a pattern of slanted lines: no shade rests on colour alone.
  function hatch(ctx, name, gap, part) {
    const px = uPlot.pxRatio, size = Math.round(gap * px), id = [name, size, part].join();
    if (hatches[id]) return hatches[id];
    const tile = canvas(size), pen = tile.getContext("2d");
    pen.strokeStyle = colour(name, part);
    pen.lineWidth = px * 1.25;
    for (const x of [-size, 0, size]) {
      pen.moveTo(x - 1, size + 1);
      pen.lineTo(x + size + 1, -1);
    }
    pen.stroke();
    return (hatches[id] = ctx.createPattern(tile, "repeat"));
  }

  // ---- the words ----

  const integers = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
  const digits = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 3 });
  const brief = new Intl.NumberFormat("en-US", { notation: "compact", maximumSignificantDigits: 3 });
  const number = (x) => (Math.abs(x) >= 100 ? integers : digits).format(x);
  const length = (span) => number(Math.max(0, span.until - span.from)) + " s";
  const within = (spans, x) => list(spans).find((s) => x >= s.from && x <= s.until);

  // clock says a moment of the run: 1:07; 1:02:07 after an hour; 1:07.5 where steps are small.
  function clock(s, step = 1) {
    const decimals = step >= 1 ? 0 : 1, t = Math.round(Math.max(0, s) * 10 ** decimals) / 10 ** decimals;
    const two = (x, d = 0) => x.toFixed(d).padStart(d ? 3 + d : 2, "0");
    const h = Math.floor(t / 3600), m = Math.floor((t % 3600) / 60);
    return (h ? `${h}:${two(m)}` : m) + ":" + two(t % 60, decimals);
  }

  function element(tag, className, ...inside) {
    const e = document.createElement(tag);
    e.className = className;
    e.append(...inside);
    return e;
  }

  function svg(tag, attributes, ...inside) {
    const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
    e.append(...inside);
    return e;
  }

  // ---- what is drawn around the lines ----
  // Sizes are those of the canvas; px is one of the page's pixels.

  // shade paints each span that is in view, inside the plot. One without a length is a moment.
  function shade(u, spans, paint, least = 0) {
    const { ctx, bbox: b } = u, px = uPlot.pxRatio;
    ctx.save();
    ctx.beginPath();
    ctx.rect(b.left, b.top, b.width, b.height);
    ctx.clip();
    for (const s of list(spans)) {
      let x = u.valToPos(s.from, "x", true), w = u.valToPos(s.until ?? s.from, "x", true) - x;
      if (!(x + w >= b.left && x <= b.left + b.width)) continue;
      if (w < least * px) [x, w] = [x - (least * px - w) / 2, least * px];
      paint(ctx, x, w, b, px, s);
    }
    ctx.restore();
  }

  function line(ctx, x, from, until, style, width, dash = []) {
    ctx.beginPath();
    ctx.setLineDash(dash);
    ctx.strokeStyle = style;
    ctx.lineWidth = width;
    ctx.moveTo(x, from);
    ctx.lineTo(x, until);
    ctx.stroke();
    ctx.setLineDash([]);
  }

  function label(ctx, text, x, y, name, px) {
    ctx.lineJoin = "round";
    ctx.lineWidth = 4 * px;
    ctx.strokeStyle = colour("panel", 0.85);
    ctx.strokeText(text, x, y);
    ctx.fillStyle = colour(name);
    ctx.fillText(text, x, y);
  }

  const fill = (style) => (ctx, x, w, b) => {
    ctx.fillStyle = style;
    ctx.fillRect(x, b.top, w, b.height);
  };

  // Every other episode is shaded and the ramps are hatched. Two runs have two sets of
  // them: there the strips above the plot tell them alone.
  function episodesUnder(u) {
    if (two) return;
    const spans = list(data.episodes).map((e) => ({ from: e.at, until: e.until, ramp: e.ramp }));
    shade(u, spans.filter((_, i) => i % 2 === 0), fill(colour("muted", 0.06)));
    shade(u, spans.filter((s) => s.ramp > 0).map((s) => ({ from: s.from, until: s.from + s.ramp })), fill(hatch(u.ctx, "muted", 5, 0.28)));
  }

  function cuts(u) {
    for (const run of runs) {
      shade(u, list(run.episodes).filter((e) => known(e.cut)).map((e) => ({ from: e.cut })),
        (ctx, x, _, b, px) => line(ctx, x, b.top, b.top + b.height, colour(run.ink, 0.7), px, [4 * px, 3 * px]));
    }
  }

  // strips names the episodes above the plot, a row a run.
  const stripHeight = 15;
  function strips(u) {
    runs.forEach((run, row) => {
      const px = uPlot.pxRatio, { left, width } = u.bbox, height = (stripHeight - 2) * px;
      const area = { left, width, top: u.bbox.top - (runs.length - row) * stripHeight * px, height };
      const spans = list(run.episodes).map((e) => ({ ...e, from: e.at }));
      shade({ ctx: u.ctx, bbox: area, valToPos: u.valToPos }, spans, (ctx, x, w, b, px, e) => {
        fill(colour(run.ink || "muted", e.counted ? 0.28 : 0.12))(ctx, x, w - px, b);
        const from = Math.max(x, left), until = Math.min(x + w, left + width);
        ctx.font = font(10 * px);
        ctx.textAlign = "center";
        ctx.textBaseline = "middle";
        const words = e.number ? [`episode ${e.number}`, `${e.number}`] : ["half load", "½"];
        if (!e.counted) words.unshift(words[0] + ", not counted");
        const word = words.find((w) => ctx.measureText(w).width < until - from - 4 * px);
        ctx.fillStyle = colour(e.counted ? "ink" : "muted");
        if (word) ctx.fillText(word, (from + until) / 2, b.top + b.height / 2 + px / 2);
      });
    });
  }

  // Where something stood still: colour, hatch, edges, a cap, and the word.
  function stallsUnder(u, spans) {
    shade(u, spans, fill(colour("stall", 0.16)), 3);
    shade(u, spans, fill(hatch(u.ctx, "stall", 7, 0.4)), 3);
  }

  function stallsOver(u, spans) {
    shade(u, spans, (ctx, x, w, b, px) => {
      for (const edge of [x, x + w]) line(ctx, edge, b.top, b.top + b.height, colour("stall", 0.9), 1.5 * px);
      ctx.fillStyle = colour("stall");
      ctx.fillRect(x, b.top, w, 3 * px);
    }, 3);
    let free = u.bbox.left; // where the next word may begin
    shade(u, spans, (ctx, x, w, b, px, s) => {
      ctx.font = font(11 * px, "600");
      ctx.textAlign = "left";
      ctx.textBaseline = "top";
      const end = b.left + b.width, words = [`stall ${length(s)}${s.open ? ", not over" : ""}`, length(s)];
      const fits = words.flatMap((word) => { // in it, or right or left of it
        const wide = ctx.measureText(word).width, inside = Math.max(x, b.left) + 5 * px;
        const right = Math.max(x + w + 5 * px, free), places = [x - 5 * px - wide];
        if (right < x + w + 20 * px) places.unshift(right);
        if (inside + wide < x + w) places.unshift(inside);
        return places.filter((at) => at >= free && at + wide < end).map((at) => ({ word, wide, at }));
      });
      if (!fits.length) return;
      const { word, wide, at } = fits[0];
      const tag = [at - 3 * px, b.top + 5 * px, wide + 6 * px, 15 * px];
      ctx.fillStyle = colour("panel", 0.92);
      ctx.strokeStyle = colour("stall");
      ctx.fillRect(...tag);
      ctx.strokeRect(...tag);
      ctx.fillStyle = colour("stall");
      ctx.fillText(word, at, b.top + 7.5 * px);
      free = at + wide + 9 * px;
    }, 3);
  }

  // Of the whole fleet's stalls every lane has its part: lighter, without hatch, and tagged.
  function fleetStallsUnder(u, spans) {
    shade(u, spans, fill(colour("stall", 0.1)), 2);
  }

  function fleetStallsOver(u, spans, low) {
    shade(u, spans, (ctx, x, w, b, px, s) => {
      for (const edge of [x, x + w]) line(ctx, edge, b.top, b.top + b.height, colour("stall", 0.7), px, [3 * px, 3 * px]);
      ctx.font = font(10 * px);
      ctx.textAlign = "center";
      ctx.textBaseline = "top";
      const word = low ? "" : ["fleet " + length(s), "fleet"].find((word) => ctx.measureText(word).width < w - 4 * px);
      if (word) label(ctx, word, x + w / 2, b.top + 5 * px, "stall", px);
    }, 2);
  }

  // Of a silent stretch nobody could tell anything.
  function silence(u, spans, low) {
    shade(u, spans, (ctx, x, w, b, px) => {
      fill(colour("silent", 0.18))(ctx, x, w, b);
      if (w < 14 * px) return; // many short ones would be nothing but edges
      for (const edge of [x, x + w]) line(ctx, edge, b.top, b.top + b.height, colour("silent"), px, [2 * px, 3 * px]);
      ctx.font = font(10 * px);
      ctx.textAlign = "center";
      ctx.textBaseline = "top";
      if (!low && ctx.measureText("no data").width < w) label(ctx, "no data", x + w / 2, b.top + 10 * px, "silent", px);
    }, 2);
  }

  // A flag at the foot for each mark; the cursor beside it tells which.
  function flags(u, list) {
    shade(u, list.map((m) => ({ from: m.at })), (ctx, x, _, b, px) => {
      const foot = b.top + b.height;
      line(ctx, x, foot - 12 * px, foot, colour("note"), 1.5 * px);
      ctx.fillStyle = colour("note");
      ctx.beginPath();
      ctx.moveTo(x, foot - 12 * px);
      ctx.lineTo(x + 6 * px, foot - 9 * px);
      ctx.lineTo(x, foot - 6 * px);
      ctx.fill();
    });
  }

  // ---- the parts of a picture ----

  const narrow = (u) => u.width < 520;
  const gutter = (u) => (narrow(u) ? 38 : 54); // on both sides, so that one moment is one place in all of them
  const axisHeight = 22;

  function axis(scale, more) {
    return {
      scale, stroke: () => colour("muted"), font: font(11), gap: 3, size: gutter, space: 30,
      values: (u, splits) => splits.map((x) => (narrow(u) ? brief.format(x).replace("K", "k") : number(x))),
      grid: { stroke: () => colour("grid", 0.8), width: 1 },
      ticks: { stroke: () => colour("grid"), width: 1, size: 4 },
      ...more,
    };
  }

  const timeAxis = (shown = true) => axis("x", {
    size: shown ? axisHeight : 0, space: 64, ticks: { show: shown, stroke: () => colour("grid"), width: 1, size: 4 },
    incrs: [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400],
    values: (_, splits, __, ___, step) => splits.map((s) => (shown ? clock(s, step) : "")),
  });

  const rightAxis = (scale, name, more) => axis(scale, { side: 1, stroke: () => colour(name), grid: { show: false }, ...more });

  // decades are the labels of a log axis: 1, 2, 5, 10 or, where room is short, 1, 10.
  function decades(u, axis, min, max) {
    const from = Math.floor(Math.log10(min)), until = Math.ceil(Math.log10(max)), all = [];
    const room = (axis === 0 ? (u.width - 70) / 45 : (u.height - 60) / 18) / Math.log10(max / min);
    for (let e = from; e <= until; e++) for (const f of room < 3 ? [1] : [1, 2, 5]) all.push(f * 10 ** e);
    const seen = all.filter((x) => x >= min * 0.999 && x <= max * 1.001);
    return seen.length > 1 ? seen : [min, max];
  }
  const logAxis = { splits: decades, filter: (_, splits) => splits };

  // series is one line: what it is called, its ink, its values, and how they are said.
  const series = (name, ink, t, v, more) => ({ name, ink, t, v, scale: "y", width: 1.5, say: number, measured: list(v).some(known), ...more });

  // ---- the kinds of picture: what is in it, or a sentence on why there is none ----

  const kinds = { lane, rate, ttft, inflight, distribution };

  // Many workers have low lanes. The first, and those that a finding names, stay high.
  const laneBoxes = boxes.filter((b) => b.dataset.plot === "lane");
  const named = (box) => list(lanes[box.dataset.lane]?.findings).length > 0;
  const isLow = (box) => box.closest(".compact") && box !== laneBoxes[0] && !(named(box) && laneBoxes.indexOf(box) < 8);
  const hasTime = (box) => (named(box) && !isLow(box)) || box === laneBoxes[0] || box === laneBoxes.at(-1);
  const laneHeight = (box) => (isLow(box) ? 42 : 108) + (hasTime(box) ? axisHeight : 0);

  function lane(box) {
    const l = lanes[box.dataset.lane], low = isLow(box);
    if (!l) return "Nothing was recorded of this worker.";
    const strip = tops.power ? 0.26 : 0; // the part of the height that is for power
    const above = (most) => [(-most * 1.06 * strip) / (1 - strip), most * 1.06];
    const t = list(l.t).length ? l.t : [whole.min, whole.max];
    const lines = [
      series("running", "run", t, l.running, { scale: "queue", fill: 0.28 }),
      series("waiting", "wait", t, l.waiting, { scale: "queue", fill: 0.18, width: 1.75 }),
      series("tokens/s", "rate", t, l.rate, { scale: "rate", width: 1.25 }),
      series("GPU power", "power", l.powerT, l.power, { scale: "power", fill: 0.22, say: (x) => number(x) + " W" }),
    ];
    if (!lines.some((s) => s.measured) && !list(l.silent).length) return "Nothing was measured of this worker.";
    const mine = marks.filter((m) => m.worker && m.worker === l.worker), all = list(data.fleet?.stalls);
    const three = (most) => ({ splits: () => (most / 2 === Math.round(most / 2) ? [0, most / 2, most] : [0, most]) });
    return {
      series: lines, time: true, marks: mine, low, height: laneHeight(box),
      scales: { queue: above(tops.queue), rate: above(tops.rate), power: [0, (tops.power || 1) / (strip - 0.05 || 1)] },
      padding: low ? [1, gutter, 1, gutter] : [4, null, strip || hasTime(box) ? 1 : 8, null],
      axes: [timeAxis(hasTime(box)), ...(low ? [] : [
        axis("queue", { ...three(tops.queue), stroke: () => colour("run") }),
        rightAxis("rate", "rate", three(tops.rate)),
      ])],
      under: (u) => { episodesUnder(u); silence(u, l.silent, low); fleetStallsUnder(u, all); stallsUnder(u, l.stalls); },
      over: (u) => { if (strip) powerStrip(u, low); fleetStallsOver(u, all, low); stallsOver(u, l.stalls); flags(u, mine); },
      state: (x) => {
        const stall = within(l.stalls, x), fleet = within(all, x), silent = within(l.silent, x);
        return stall ? "stalled " + length(stall) : fleet ? "stalled with the fleet " + length(fleet) : silent ? "no data " + length(silent) : "";
      },
    };
  }

  // powerStrip draws the ground that the queue stands on, over all that lies at zero, and
  // says what the strip's height is worth.
  function powerStrip(u, low) {
    const { ctx, bbox: b } = u, px = uPlot.pxRatio;
    ctx.fillStyle = colour("grid");
    ctx.fillRect(b.left, u.valToPos(0, "queue", true) - 1.5 * px, b.width, 3 * px);
    if (low) return;
    const word = number(tops.power) + " W", right = b.left - 7 * px;
    for (let size = 11; size > 7; size--) { // fonts differ, and the gutter of a narrow page is narrow
      ctx.font = font(size * px);
      if (ctx.measureText(word).width < right - px) break;
    }
    ctx.textAlign = "right";
    ctx.textBaseline = "bottom";
    ctx.fillStyle = colour("power");
    ctx.fillText(word, right, b.top + b.height);
  }

  // ofEach makes the same line of each run: alone in its own ink; of two in theirs, the
  // first dashed, so that colour is not all that tells them apart.
  function ofEach(name, ink, field, more, dash = [6, 4]) {
    return runs.map((run) => {
      const f = run.fleet || {};
      return two ? series(`${name}, ${run.ink}`, run.ink, f.t, f[field], { ...more, dash: run.ink === "first" ? dash : undefined })
        : series(name, ink, f.t, f[field], more);
    });
  }

  // timeline is a picture of the fleet over the run.
  function timeline(lines, none, more) {
    const shown = lines.filter((s) => s.measured);
    if (!shown.length) return none;
    const episodes = runs.flatMap((r) => list(r.episodes)), stalls = two ? [] : list(data.fleet?.stalls);
    const strip = episodes.length ? runs.length * stripHeight + 2 : 6;
    return {
      series: shown, time: true, marks, height: 190 + strip, padding: [strip, more.axes.length > 2 ? null : gutter, null, null],
      under: (u) => { episodesUnder(u); stallsUnder(u, stalls); },
      over: (u) => { strips(u); cuts(u); stallsOver(u, stalls); flags(u, marks); },
      state: (x) => (within(stalls, x) ? "the whole fleet stood still" : ""),
      also: [
        !two && episodes.some((e) => e.ramp > 0) && ["ramp", "load ramps up"],
        episodes.some((e) => known(e.cut)) && ["cut", "counted from here on"],
        stalls.length && ["stall", "the whole fleet stood still"],
        marks.length && ["flag", "event: point at it"],
      ].filter(Boolean),
      ...more,
    };
  }

  function rate() {
    const lines = ofEach("tokens/s", "rate", "rate", { fill: two ? 0 : 0.16 });
    return timeline(lines, "No throughput was recorded.", {
      scales: { y: [0, (top(lines.map((s) => s.v)) || 1) * 1.04] }, axes: [timeAxis(), axis("y")],
    });
  }

  function ttft() {
    const say = (x) => number(x) + " ms";
    const lines = [...ofEach("TTFT p50", "run", "ttft50", { say, width: 2.5 }), ...ofEach("TTFT p99", "wait", "ttft99", { say, width: 1.25 }, [2, 3])];
    const all = lines.flatMap((s) => list(s.v).filter((x) => x > 0));
    const low = all.reduce((a, b) => Math.min(a, b), Infinity), high = highest([all]), log = high > 20 * low;
    if (log) lines.forEach((s) => (s.least = low)); // a log scale has no zero
    return timeline(lines, "No time to first token was recorded.", {
      scales: { y: log ? { distr: 3, range: [low / 1.3, high * 1.3] } : [0, (top([all]) || 1) * 1.04] },
      axes: [timeAxis(), axis("y", log ? logAxis : {})],
      bands: !two && lines.every((s) => s.measured) ? [{ series: [2, 1], fill: () => colour("wait", 0.12) }] : undefined,
      remark: log ? "log scale" : "",
    });
  }

  function inflight() {
    const flight = ofEach("in flight", "run", "inFlight", { fill: two ? 0 : 0.16 });
    const failed = ofEach("failed/s", "fail", "failed", { scale: "failed", fill: 0.3, width: 1 }).filter((s) => highest([s.v]) > 0);
    const high = top(failed.map((s) => s.v)) || 1; // in the lower half, to leave the other line alone
    return timeline([...flight, ...failed], "No request was recorded.", {
      scales: { y: [0, (top(flight.map((s) => s.v)) || 1) * 1.04], failed: [0, high * 2] },
      axes: [timeAxis(), axis("y"), ...(failed.length ? [rightAxis("failed", "fail", { splits: () => [0, high / 2, high] })] : [])],
    });
  }

  // distribution is how often which value came: bars on a log axis or, of two runs, outlines.
  // Runs of different sizes are held against each other by shares, of bars of one width.
  function distribution(box) {
    const ours = list(data.distributions)[box.dataset.index];
    const theirs = two && list(data.against.distributions).find((d) => d?.name === ours?.name);
    const all = [theirs, ours].filter((d) => d && d.n > 0 && list(d.edges).length > 1 && list(d.counts).length);
    if (!all.length) return "No value was recorded.";
    const xs = [...new Set(all.flatMap((d) => d.edges))].filter((x) => x > 0).sort((a, b) => a - b);
    const width = (d, i) => Math.log(d.edges[i + 1] / d.edges[i]), unit = (x) => `${number(x)} ${ours.unit}`;
    const lines = all.map((d) => {
      let i = 0; // the bar that x lies in
      const v = xs.map((x) => {
        while (d.edges[i + 1] <= x) i++;
        if (x < d.edges[0] || !(i < d.counts.length)) return 0;
        return two ? (100 * d.counts[i] / d.n) * (width(all[0], 0) / width(d, i)) : d.counts[i];
      });
      const nth = d === ours ? 1 : 0;
      return two ? series(runs[nth].ink, runs[nth].ink, xs, v, { width: 2, fill: nth ? 0.16 : 0, dash: nth ? undefined : [6, 4],
        paths: uPlot.paths.stepped({ align: 1 }), say: (x) => number(x) + " %" })
        : series("count", "run", xs, v, { width: 0, fill: 0.6, paths: uPlot.paths.bars({ size: [1, Infinity], align: 1, gap: 1 }) });
    });
    const points = all.flatMap((d) => ["p50", "p90", "p99"].filter((p) => d[p] > 0).map((p) => ({
      at: d[p], text: `${p} ${unit(d[p])}`, ink: two ? runs[d === ours ? 1 : 0].ink : "ink", dashed: two && d !== ours,
    }))).sort((a, b) => a.at - b.at);
    const rows = points.length, ends = [...xs, ...points.map((p) => p.at)];
    return {
      series: lines, height: 190 + rows * 14, padding: [rows * 14 + 4, 14, null, null],
      x: { distr: 3, range: [Math.min(...ends), Math.max(...ends)] },
      scales: { y: [0, (top(lines.map((s) => s.v)) || 1) * 1.04] },
      axes: [axis("x", { ...logAxis, size: axisHeight }), axis("y", two ? { values: (_, s) => s.map((x) => number(x) + " %") } : {})],
      over: (u) => percentiles(u, points, rows),
      when: (i) => (i + 1 < xs.length ? `${number(xs[i])} to ${unit(xs[i + 1])}` : ""),
      remark: `${ours.unit}, log scale`,
    };
  }

  // Percentiles are lines with their names above the plot, each in the first row that has
  // room, and from which its line meets no name on its way down.
  function percentiles(u, points, rows) {
    const { ctx, bbox: b } = u, px = uPlot.pxRatio, taken = Array(rows).fill(0);
    ctx.save();
    ctx.font = font(11 * px);
    ctx.textAlign = "left";
    ctx.textBaseline = "middle";
    const labels = points.map((p) => {
      const x = u.valToPos(p.at, "x", true), wide = ctx.measureText(p.text).width + 5 * px;
      const from = x + wide > b.left + b.width + 10 * px ? x - wide : x + 5 * px;
      const row = taken.findLastIndex((end) => end > Math.min(from, x - 3 * px)) + 1;
      taken[row] = from + wide;
      const y = b.top - (rows - row - 0.5) * 14 * px;
      line(ctx, x, y - 5 * px, b.top + b.height, colour(p.ink, 0.85), 1.5 * px, p.dashed ? [5 * px, 4 * px] : []);
      return () => label(ctx, p.text, from, y, p.ink, px);
    });
    labels.forEach((write) => write()); // over all lines
    ctx.restore();
  }

  // ---- drawing ----

  function draw(box) {
    if (drawn.has(box) || box.clientWidth === 0) return;
    const it = { box, kind: box.dataset.plot, near: true };
    drawn.set(box, it);
    try {
      const p = (it.picture = kinds[it.kind](box));
      if (typeof p === "string") return say(box, p);
      const table = uPlot.join(p.series.map(track));
      it.keys = legend(box, p);
      it.plot = new uPlot(options(it, table), table, box);
      if (p.time) touch(it.plot);
      window.aicrPlots.push({ kind: it.kind, lane: it.kind === "lane" ? Number(box.dataset.lane) : null, plot: it.plot });
    } catch (err) {
      it.plot = undefined;
      box.dataset.failed = "yes";
      say(box, `This picture could not be drawn: ${err.message}.`);
    }
  }

  function say(box, sentence) {
    box.replaceChildren(element("p", "plot-none", sentence));
    box.style.minHeight = "";
  }

  function widthOf(box) {
    const { paddingLeft, paddingRight } = getComputedStyle(box);
    return Math.max(120, Math.floor(box.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight)));
  }

  function options(it, table) {
    const p = it.picture;
    const scales = { x: { time: false, ...(p.time ? { range: () => [view.min, view.max] } : p.x) } };
    for (const [name, s] of Object.entries(p.scales)) scales[name] = Array.isArray(s) ? { range: s } : s;
    return {
      width: widthOf(it.box), height: p.height, padding: p.padding, scales, axes: p.axes, bands: p.bands, legend: { show: false },
      cursor: {
        y: false,
        points: { show: !p.low && p.time, size: 7, fill: (_, i) => colour(p.series[i - 1].ink) },
        drag: { x: !!p.time, y: false, setScale: false, dist: 6 },
        dataIdx: p.time ? nearest : (u, _, row, x) => (row > 0 && u.data[0][row] > x ? row - 1 : row), // of bars, the one that x is in
        bind: { dblclick: () => () => { zoom(whole.min, whole.max); } },
        // The others are told where the cursor is, and nothing else: the zoom is in the view.
        sync: p.time ? { key: "run", scales: ["x", null], filters: { pub: (type) => type === "mousemove", sub: () => true } } : undefined,
      },
      series: [{}, ...p.series.map((s, i) => ({
        label: s.name, scale: s.scale, width: s.width, dash: s.dash, paths: s.paths, stroke: () => colour(s.ink),
        fill: s.fill ? () => colour(s.ink, s.fill) : undefined,
        points: { show: false, size: 4, fill: () => colour(s.ink), filter: () => alone(table[i + 1]) },
      }))],
      hooks: {
        drawClear: [(u) => p.under?.(u)],
        draw: [(u) => p.over?.(u)],
        setCursor: [() => later(it)],
        setSelect: [(u) => {
          const { left, width } = u.select;
          if (width <= 0) return;
          u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          zoom(u.posToVal(left, "x"), u.posToVal(left + width, "x"));
        }],
      },
    };
  }

  // nearest is the row next to x in which a line has a value, or a gap, of its own.
  function nearest(u, nth, row, x) {
    const xs = u.data[0], v = u.data[nth];
    let left = row, right = row;
    if (nth === 0) return row;
    while (left > 0 && v[left] === undefined) left--;
    while (right < v.length - 1 && v[right] === undefined) right++;
    return v[right] === undefined || (v[left] !== undefined && x - xs[left] <= xs[right] - x) ? left : right;
  }

  // alone finds the values with none on either side: no line shows them, so a dot must.
  function alone(v) {
    if (!v.dots) {
      const own = v.map((_, i) => i).filter((i) => v[i] !== undefined);
      v.dots = own.filter((i, k) => known(v[i]) && !known(v[own[k - 1]]) && !known(v[own[k + 1]]));
    }
    return v.dots.length ? v.dots : null;
  }

  // ---- legends, and what they say at the cursor ----

  // swatch is a piece of a line as it is drawn: as wide, as dashed, as filled.
  function swatch(s) {
    const at = s.fill ? 1 : 5, all = svg("svg", { class: "swatch", viewBox: "0 0 18 10" });
    all.style.color = `var(--${s.ink})`;
    if (s.fill) all.append(svg("path", { d: "M0 1H18V10H0z", fill: "currentColor", "fill-opacity": 0.3 }));
    all.append(svg("path", { d: `M0 ${at}H18`, stroke: "currentColor", "stroke-width": s.width, "stroke-dasharray": list(s.dash).join(" ") }));
    return all;
  }

  function legend(box, p) {
    const keys = { all: element("div", p.low ? "plot-legend plot-over" : "plot-legend"), when: element("b", ""), state: element("b", "plot-state") };
    keys.when.style.minWidth = p.when ? "9em" : "4em";
    keys.values = p.series.map((s) => {
      const value = s.measured ? element("b", "") : element("span", "", "not measured");
      if (s.measured) value.style.minWidth = s.say(highest([s.v])).length * 0.95 + "ch"; // its place is kept, so that nothing moves
      return value;
    });
    keys.all.append(
      ...p.series.map((s, i) => element("span", "plot-key", swatch(s), s.name, " ", keys.values[i])),
      ...list(p.also).map(([key, words]) => element("span", "plot-key", svg("svg", { class: "swatch" }, svg("use", { href: "#key-" + key })), words)),
      ...(p.remark ? [element("span", "plot-key", p.remark)] : []),
      element("span", "plot-key plot-at", keys.state, " ", keys.when));
    box.append(keys.all);
    return keys;
  }

  // The words of all pictures change together, once a frame: a change between two of
  // uPlot's looks at the layout would make the browser lay out the page for each of them.
  const changed = new Set();
  function later(it) {
    if (!it.plot) return; // uPlot sets its cursor before it is there
    if (changed.size === 0) requestAnimationFrame(() => {
      for (const it of changed) if (it.near || !it.picture.low) tell(it);
      changed.clear();
    });
    changed.add(it);
  }

  function tell({ plot: u, picture: p, keys }) {
    const { idx, idxs, left } = u.cursor, on = left >= 0 && known(idx), x = on ? u.posToVal(left, "x") : null;
    const put = (e, text) => { if (e.textContent !== text) e.textContent = text; };
    put(keys.when, !on ? "" : p.when ? p.when(idxs[1]) : clock(x, (view.max - view.min) / 600));
    const values = p.series.map((_, i) => (on ? u.data[i + 1][idxs[i + 1]] : null));
    p.series.forEach((s, i) => { if (s.measured) put(keys.values[i], !on ? "" : known(values[i]) ? s.say(values[i]) : "–"); });
    put(keys.state, on ? p.state?.(x) || (values.some(known) ? "" : "not measured") : "");
    if (p.low) { // over its lane, on the side where the cursor is not
      keys.all.classList.toggle("on", on);
      keys.all.classList.toggle("left", left > u.over.clientWidth / 2);
    }
    keys.note?.remove();
    const near = on ? list(p.marks).filter((m) => Math.abs(u.valToPos(m.at, "x") - left) <= 7) : [];
    if (!near.length) return;
    keys.note = element("div", "plot-note", ...near.slice(0, 4).map((m) =>
      element("div", "", `${clock(m.at)} ${m.worker ? m.worker + ": " : ""}${m.text || m.kind}`.slice(0, 300))));
    if (near.length > 4) keys.note.append(`and ${near.length - 4} more`);
    keys.note.style[left > u.over.clientWidth / 2 ? "right" : "left"] = `${8 + Math.min(left, u.over.clientWidth - left)}px`;
    u.over.append(keys.note);
  }

  // ---- zoom, keys and touch ----

  const reset = element("button", "plot-reset"), voice = element("div", "hidden");
  reset.type = "button";
  reset.hidden = true;
  reset.addEventListener("click", () => zoom(whole.min, whole.max));
  voice.setAttribute("role", "status");

  function zoom(from, until) {
    [from, until] = [Math.max(whole.min, from), Math.min(whole.max, until)];
    if (!(until - from >= 0.1)) return;
    Object.assign(view, { min: from, max: until });
    for (const { plot, picture, near } of drawn.values()) {
      if (!plot || !picture.time) continue;
      const follow = () => plot.setScale("x", { ...view });
      if (near) follow();
      else setTimeout(follow); // those that nobody sees make nobody wait
    }
    reset.hidden = from === whole.min && until === whole.max;
    reset.textContent = `Reset zoom (${clock(from)} to ${clock(until)})`;
  }

  const point = (u, left) => u.setCursor({ left, top: left < 0 ? -10 : u.over.clientHeight / 2 }, true, true);

  // Arrows move the cursor from value to value and from mark to mark, by ten with shift;
  // + and - zoom around it; Escape leaves.
  function keydown(e) {
    const it = drawn.get(e.currentTarget), u = it?.plot;
    if (!u || e.ctrlKey || e.altKey || e.metaKey) return;
    const { min, max } = u.scales.x, left = u.cursor.left, at = left >= 0 ? u.posToVal(left, "x") : null;
    const steps = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[e.key] * (e.shiftKey ? 10 : 1);
    if (steps) {
      // Power has times of its own, which would make two stops of each.
      const times = u.data[0].filter((_, i) => u.series.some((s, k) => k > 0 && s.scale !== "power" && u.data[k][i] !== undefined));
      const places = [...new Set([...times, ...list(it.picture.marks).map((m) => m.at)].filter((x) => x >= min && x <= max)
        .map((x) => Math.ceil(u.valToPos(x, "x"))))].sort((a, b) => a - b);
      const here = Math.ceil(left), ahead = places.filter((x) => (steps > 0 ? x > here : at === null || x < here));
      if (steps < 0) ahead.reverse();
      if (ahead.length) point(u, ahead[Math.min(Math.abs(steps), ahead.length) - 1]);
      tell(it);
      voice.textContent = [it.keys.when, it.keys.state, ...it.keys.values.map((b) => b.parentNode), it.keys.note]
        .map((e) => (e?.isConnected ? e.textContent.trim() : "")).filter(Boolean).join(", ").replaceAll("–", "not measured");
    } else if (e.key === "Escape") {
      point(u, -10);
      voice.textContent = "";
    } else if ((e.key === "+" || e.key === "-") && it.picture.time) {
      const half = (max - min) * (e.key === "+" ? 0.25 : 1), middle = at ?? (min + max) / 2;
      zoom(middle - half, middle + half);
    } else return;
    e.preventDefault();
  }

  // A finger that goes sideways moves the cursor; up and down it scrolls the page, as anywhere.
  function touch(u) {
    u.over.style.touchAction = "pan-y pinch-zoom";
    u.over.addEventListener("pointermove", (e) => {
      const { left, width } = u.over.getBoundingClientRect();
      if (e.pointerType === "touch") point(u, Math.min(width, Math.max(0, e.clientX - left)));
    });
  }

  // ---- the beginning ----

  function begin() {
    (document.querySelector("main") || document.body).append(reset, voice);
    takeInk();

    // A picture is drawn when it comes near the view. Its box has a height before, so
    // that nothing moves then, and so that not all of them are near at once.
    const sight = new IntersectionObserver((seen) => {
      for (const { target, isIntersecting } of seen) {
        if (isIntersecting) draw(target);
        const it = drawn.get(target);
        if (it) it.near = isIntersecting;
        if (it?.plot && isIntersecting) later(it); // the cursor may have moved meanwhile
      }
      setTimeout(() => { root.dataset.drawn = "yes"; }); // after uPlot's microtasks
    }, { rootMargin: "600px 0px" });
    const width = new ResizeObserver((seen) => {
      for (const { target } of seen) {
        const u = drawn.get(target)?.plot;
        if (u && target.clientWidth && widthOf(target) !== u.width) u.setSize({ width: widthOf(target), height: u.height });
      }
    });
    for (const box of boxes) {
      const high = box.dataset.plot === "lane" ? laneHeight(box) + (isLow(box) ? 0 : 18) : 225;
      box.style.minHeight = high + "px";
      box.addEventListener("keydown", keydown);
      box.addEventListener("focus", () => draw(box));
      sight.observe(box);
      width.observe(box);
    }
    if (!boxes.length) root.dataset.drawn = "yes";

    const again = () => {
      takeInk();
      for (const { plot } of drawn.values()) plot?.redraw(false);
    };
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
    matchMedia("print").addEventListener("change", again); // paper is light in a dark room too
    addEventListener("beforeprint", () => {
      paper = true;
      again();
      boxes.forEach(draw);
    });
    addEventListener("afterprint", () => {
      paper = false;
      requestAnimationFrame(again);
    });
  }

  if (document.readyState === "loading") addEventListener("DOMContentLoaded", begin);
  else begin();
})();
