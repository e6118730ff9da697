// What the checks ask of a page that is open. Each function gives plain values.
(() => {
  const slack = 2; // px that two boxes may share
  const short = (s) => JSON.stringify(s.trim().replace(/\s+/g, " ").slice(0, 40));
  const frame = () => new Promise((done) => requestAnimationFrame(() => done()));
  const plots = () => [...document.querySelectorAll(".plot")];
  const nameOf = (plot) => [plot.dataset.plot, plot.dataset.lane ?? plot.dataset.index].filter((s) => s !== undefined).join(" ");

  // until waits some frames for something that a page does on its own time.
  async function until(holds) {
    for (let i = 0; i < 60 && !holds(); i++) await frame();
    return Boolean(holds());
  }

  // isDrawn waits for the page to say so.
  async function isDrawn() {
    const start = performance.now();
    while (document.documentElement.dataset.drawn !== "yes") {
      if (performance.now() - start > 15000) return false;
      await frame();
    }
    return true;
  }

  // pixels reads a copy: the browser complains of a canvas that is read often.
  const copy = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  function pixels(canvas) {
    copy.canvas.width = canvas.width;
    copy.canvas.height = canvas.height;
    copy.drawImage(canvas, 0, 0);
    return copy.getImageData(0, 0, canvas.width, canvas.height).data;
  }

  // inked says whether anything is drawn on a canvas.
  function inked(canvas) {
    if (!canvas || !canvas.width || !canvas.height) return false;
    const data = pixels(canvas);
    for (let i = 3; i < data.length; i += 4) if (data[i]) return true;
    return false;
  }

  // drawAll scrolls past every plot, since they are drawn when they are near, and
  // gives those that were not drawn for all that.
  async function drawAll() {
    const blank = [];
    for (const plot of plots()) {
      plot.scrollIntoView({ block: "center", behavior: "instant" });
      if (!await until(() => plot.querySelector("canvas")) || !await until(() => inked(plot.querySelector("canvas")))) blank.push(nameOf(plot));
    }
    scrollTo({ top: 0, behavior: "instant" });
    await frame();
    return blank;
  }

  // lanes gives the workers that have a lane, and those of them that are drawn.
  async function lanes() {
    const blank = await drawAll();
    const all = [...document.querySelectorAll(".lane")];
    return {
      workers: all.map((lane) => lane.dataset.worker ?? ""),
      drawn: all.filter((lane) => inked(lane.querySelector("canvas"))).map((lane) => lane.dataset.worker ?? ""),
      blank,
    };
  }

  // readout is what a plot's legend says.
  const readout = (plot) => (plot.root.closest(".plot") ?? plot.root).textContent.replace(/\s+/g, " ").trim();

  // cursors tells where each plot of the run's time has its cursor.
  function cursors() {
    return (window.aicrPlots ?? []).filter((p) => p.kind !== "distribution").map(({ kind, lane, plot }) => {
      const line = plot.root.querySelector(".u-cursor-x");
      const on = plot.cursor.left >= 0 && line && getComputedStyle(line).display !== "none" && !line.classList.contains("u-off");
      const { min, max } = plot.scales.x;
      return {
        name: [kind, lane].filter((s) => s !== undefined && s !== null).join(" "),
        at: on ? plot.posToVal(plot.cursor.left, "x") : null,
        line: line?.style.transform ?? "", span: max - min, readout: readout(plot),
      };
    });
  }

  // over brings a plot into view and gives a point of its plotting area.
  async function over(selector, share) {
    const plot = document.querySelector(selector);
    if (!plot) return null;
    plot.scrollIntoView({ block: "center", behavior: "instant" });
    await until(() => plot.querySelector(".u-over"));
    await frame();
    const box = plot.querySelector(".u-over")?.getBoundingClientRect();
    return box && { x: box.left + box.width * share, y: box.top + box.height / 2 };
  }

  // focus tells what has it.
  function focus() {
    const e = document.activeElement;
    if (!e || e === document.body) return { tag: "body", plot: "", link: "", ring: true };
    const style = getComputedStyle(e);
    return {
      tag: e.tagName.toLowerCase(), plot: e.classList.contains("plot") ? nameOf(e) : "", link: e.getAttribute("href") ?? "",
      ring: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0 || style.boxShadow !== "none",
      inside: Boolean(e.closest("nav, main")),
      seen: e.getBoundingClientRect().bottom > 0 && e.getBoundingClientRect().top < innerHeight,
    };
  }

  // follows says whether what has the focus is the target of a link, in it or after it.
  function follows(hash) {
    const target = document.getElementById(hash.slice(1)), e = document.activeElement;
    if (!target || !e) return false;
    return target === e || Boolean(target.compareDocumentPosition(e) & (Node.DOCUMENT_POSITION_FOLLOWING | Node.DOCUMENT_POSITION_CONTAINED_BY));
  }

  const meet = (a, b) => ({ left: Math.max(a.left, b.left), top: Math.max(a.top, b.top), right: Math.min(a.right, b.right), bottom: Math.min(a.bottom, b.bottom) });
  const wide = (b) => b.right - b.left, high = (b) => b.bottom - b.top;
  const moved = (r) => ({ left: r.left + scrollX, right: r.right + scrollX, top: r.top + scrollY, bottom: r.bottom + scrollY });

  // glyphs is the part of a line's box that has ink: the box is as high as the font
  // wants, and two lines' boxes may share some of it.
  function glyphs(rect, e) {
    const size = e.namespaceURI.endsWith("svg") ? high(rect) * 0.72 : parseFloat(getComputedStyle(e).fontSize) * 0.85;
    const off = Math.max(0, (high(rect) - size) / 2);
    return { ...rect, top: rect.top + off, bottom: rect.bottom - off };
  }

  // boxes gives every visible line of text with its place in the document, and
  // tells what is cut off: by a box that does not scroll, or by the page's edge.
  function boxes() {
    const found = [], cut = [];
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walk.nextNode(); node; node = walk.nextNode()) {
      const e = node.parentElement;
      if (!node.data.trim() || e.closest("script,style,noscript,title,desc,option") || !e.checkVisibility({ opacityProperty: true, visibilityProperty: true, contentVisibilityAuto: true })) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      for (const r of range.getClientRects()) {
        if (r.width < 1 || r.height < 1) continue;
        const whole = moved(r);
        let part = glyphs(whole, e), scrolls = false, hidden = false, clipped = false;
        for (let up = e; up && up !== document.documentElement; up = up.parentElement) {
          const style = getComputedStyle(up);
          const axes = [style.overflowX, style.overflowY];
          if (style.display === "inline" || axes.every((v) => v === "visible")) {
            if (style.position === "absolute" && style.clip !== "auto") hidden = true;
            continue;
          }
          const clip = moved(up.getBoundingClientRect());
          if (wide(clip) <= slack || high(clip) <= slack) hidden = true; // for screen readers
          if (axes.some((v) => v === "auto" || v === "scroll")) scrolls = true;
          else if (!scrolls && style.textOverflow !== "ellipsis" && (part.left < clip.left - slack || part.right > clip.right + slack || part.top < clip.top - slack || part.bottom > clip.bottom + slack)) clipped = true;
          part = meet(part, clip);
        }
        if (hidden) continue;
        if (clipped) cut.push(`${short(node.data)} is cut off by a box around it`);
        if (wide(part) <= slack || high(part) <= slack) continue;
        if (!scrolls && (part.right > document.documentElement.clientWidth + slack || part.left < -slack)) cut.push(`${short(node.data)} is cut off by the page's edge`);
        found.push({ ...part, node, text: node.data, home: e.closest(".plot") });
      }
    }
    for (const canvas of document.querySelectorAll("canvas")) {
      if (!canvas.checkVisibility()) continue;
      const r = moved(canvas.getBoundingClientRect());
      found.push({ ...r, node: canvas, text: "a canvas", home: canvas.closest(".plot") });
      if (r.right > document.documentElement.clientWidth + slack || r.left < -slack) cut.push("a canvas is cut off by the page's edge");
    }
    return { found, cut };
  }

  // overlaps tells the pairs of lines that share more than the slack.
  function overlaps(found, same) {
    const told = new Set();
    found.sort((a, b) => a.top - b.top);
    for (let i = 0; i < found.length; i++) {
      for (let j = i + 1; j < found.length && found[j].top < found[i].bottom - slack; j++) {
        const a = found[i], b = found[j], both = meet(a, b);
        if (same(a, b) || wide(both) <= slack || high(both) <= slack) continue;
        told.add(`${short(a.text)} and ${short(b.text)} overlap by ${wide(both).toFixed(0)}x${high(both).toFixed(0)} px`);
      }
    }
    return [...told];
  }

  // layout tells all that is wrong with where things are.
  async function layout() {
    await frame();
    const wrong = [], root = document.documentElement;
    if (root.scrollWidth > root.clientWidth) {
      const wide = [...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right + scrollX > root.clientWidth + slack);
      wrong.push(`the document is ${root.scrollWidth} px wide in a view of ${root.clientWidth}: ${wide.slice(0, 3).map((e) => `${e.tagName.toLowerCase()}.${e.getAttribute("class") ?? ""}`).join(", ")}`);
    }
    const { found, cut } = boxes();
    wrong.push(...new Set(cut));
    const pictureAndItsOwn = (a, b) => a.node === b.node || a.home && a.home === b.home && (a.node instanceof Element || b.node instanceof Element);
    wrong.push(...overlaps(found, pictureAndItsOwn));
    for (const canvas of document.querySelectorAll("canvas")) {
      const name = nameOf(canvas.closest(".plot") ?? canvas), texts = window.browserWritten(canvas).filter((w) => w.text.trim());
      const twice = (a, b) => a.text === b.text && Math.abs(a.left - b.left) < 1 && Math.abs(a.top - b.top) < 1;
      wrong.push(...overlaps(texts, twice).map((s) => `on the canvas of ${name}: ${s}`));
      for (const w of texts) {
        if (w.left < -slack || w.top < -slack || w.right > canvas.width + slack || w.bottom > canvas.height + slack) wrong.push(`on the canvas of ${name}: ${short(w.text)} is cut off`);
      }
    }
    return [...new Set(wrong)];
  }

  // inks gives for each drawn plot the colours that it is written and drawn in.
  function inks() {
    return plots().filter((p) => p.querySelector("canvas")).map((plot) => {
      const canvas = plot.querySelector("canvas"), count = new Map();
      const data = pixels(canvas);
      for (let i = 0; i < data.length; i += 4) {
        if (data[i + 3] < 250) continue;
        const colour = (data[i] << 16) | (data[i + 1] << 8) | data[i + 2];
        count.set(colour, (count.get(colour) ?? 0) + 1);
      }
      const common = [...count].sort((a, b) => b[1] - a[1]).slice(0, 6).map(([c]) => `#${c.toString(16).padStart(6, "0")}`);
      return { name: nameOf(plot), written: [...new Set(window.browserWritten(canvas).map((w) => w.ink))].sort(), drawn: common.sort() };
    });
  }

  // brightness of a colour as the browser writes it, from 0 to 1.
  function brightness(colour) {
    copy.fillStyle = colour;
    copy.fillRect(0, 0, 1, 1);
    const [r, g, b] = copy.getImageData(0, 0, 1, 1).data;
    return (0.2126 * r + 0.7152 * g + 0.0722 * b) / 255;
  }

  let opened = [];
  const unfold = () => { opened = [...document.querySelectorAll("details:not([open])")]; opened.forEach((d) => { d.open = true; }); };
  const fold = () => { opened.forEach((d) => { d.open = false; }); opened = []; };
  Object.defineProperty(window, "browserLook", { configurable: true, value: { isDrawn, drawAll, lanes, cursors, over, focus, follows, layout, inks, brightness, unfold, fold, plots: () => plots().map(nameOf) } });
})();
