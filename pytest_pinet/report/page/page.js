"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const all = (query, within = document) => [...within.querySelectorAll(query)];
  const make = (tag, values = {}, ...children) => {
    const found = Object.assign(document.createElement(tag), values);
    found.append(...children);
    return found;
  };
  // As Bitrate in quantities.py.
  const rate = (kilo) => {
    if (kilo === null) return "-";
    const [unit, size] = [["Gbit/s", 1e6], ["Mbit/s", 1e3], ["kbit/s", 1]].find((one) => kilo >= 0.99995 * one[1]) || ["bit/s", 1e-3];
    const value = kilo / size;
    return `${value.toFixed(unit === "bit/s" ? 0 : unit === "Gbit/s" || value < 9.995 ? 2 : value < 10000 ? 1 : 0)}\u00a0${unit}`;
  };
  // A value of a metric with its unit, as Python writes it.
  const withUnit = (metric, value) => {
    if (!metric.unit || value === null) return rate(value);
    if (metric.unit === "s") return value < 1 ? `${Number((value * 1000).toPrecision(3))}\u00a0ms` : `${Number(value.toPrecision(3))}\u00a0s`;
    if (metric.unit === "share") return `${Number((value * 100).toPrecision(3))}%`;
    return `${value < 99.5 ? Number(value.toPrecision(3)) : value.toFixed(0)}${metric.unit.replace(/^ms/, "\u00a0ms")}`;
  };
  const percent = (part) => `${part < 0 ? "" : "+"}${(part * 100).toFixed(2)}\u00a0%`;
  const date = (minutes) => new Date(minutes * 60000).toISOString();
  const minute = (minutes) => date(minutes).slice(0, 16).replace("T", " ");
  // What begins at a place and holds until the next one: the limit, the build.
  const held = (pairs, at) => pairs.reduce((found, [from, value]) => (from <= at ? value : found), null);
  const combinations = new Map(data.combinations.map((one) => [one.key, one]));
  for (const one of data.combinations) {
    one.runs = one.runs.map((number) => ({ name: data.runs[number][0], time: data.runs[number][1], href: data.texts[data.runs[number][2]] }));
    one.build = (at) => data.texts[held(one.builds, at)];
    for (const metric of one.metrics) {
      metric.at ||= [...metric.value.keys()];
      metric.word = (place) => data.verdicts[metric.verdict[place]];
    }
  }

  // -- the table of the runs of a combination, made when it is opened --------------------------------------------
  const link = (run) => {
    return run.href ? make("a", { href: `${run.href}/results.json`, textContent: run.name }) : run.name;
  };
  const mark = (word) => {
    const found = make("span", { className: "word" });
    found.innerHTML = `<svg class="mark" viewBox="-8 -8 16 16" aria-hidden="true"><use href="#m-${word}"/></svg>`;
    found.append(word);
    return found;
  };
  const table = (label, heads, rows) => {
    const head = make("tr", {}, ...heads.map((text) => make("th", { scope: "col", textContent: text })));
    const found = make("table", { className: "runs" }, make("thead", {}, head), make("tbody", {}, ...rows));
    const scroll = make("div", { className: "scroll", tabIndex: 0 }, found);
    scroll.setAttribute("role", "region");
    scroll.setAttribute("aria-label", label);
    return scroll;
  };
  const row = (cells, numbers) => make("tr", {}, ...cells.map((cell, at) => make("td", { className: numbers.includes(at) ? "number" : "" }, cell)));
  const runTable = (one) => {
    const heads = ["time (UTC)", "metric", "verdict", "value", "interval", "limit", "build", "run", "why"];
    const rows = one.metrics.flatMap((metric) => metric.value.map((value, place) => {
      const at = metric.at[place], run = one.runs[at];
      const interval = value === null || !metric.below[place] ? "-" : `${withUnit(metric, value - metric.below[place])} to ${withUnit(metric, value + metric.above[place])}`;
      return [run.time, row([minute(run.time), metric.name, mark(metric.word(place)), withUnit(metric, value), interval, withUnit(metric, held(metric.limit, place)), one.build(at), link(run), metric.why[place] || ""], [3, 4, 5])];
    }));
    return table("Runs", heads, rows.sort((a, b) => b[0] - a[0]).map((one) => one[1]));
  };
  for (const details of all("details.table"))
    details.addEventListener("toggle", () => {
      if (details.open && details.children.length === 1) details.append(runTable(combinations.get(details.closest("article").id)));
    });

  // -- filters -------------------------------------------------------------------------------------------------
  const articles = all("article");
  const filters = document.querySelector("form.filters");
  const control = (name, element) => {
    element.name = name;
    filters.append(make("label", { className: "filter" }, `${name} `, element));
    element.addEventListener("input", apply);
    return element;
  };
  // One value leaves no choice.
  const choice = (name, values) => values.size < 2 ? { value: "" } : control(name, make("select", {}, make("option", { value: "", textContent: "all" }), ...[...values].sort().map((value) => make("option", { value, textContent: value }))));
  const values = (name) => new Set(articles.flatMap((one) => one.dataset[name].split(" ")));
  const shown = make("output", { className: "muted" });
  const wanted = {};
  function apply() {
    let count = 0;
    const from = wanted.from.value, to = wanted.to.value ? `${wanted.to.value}~` : "~";
    const words = wanted.text.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const article of articles) {
      const one = combinations.get(article.id), found = article.dataset;
      const inside = one.runs.map((run) => date(run.time)).map((text) => text >= from && text <= to);
      const first = inside.indexOf(true), last = inside.lastIndexOf(true);
      const fits = ["board", "NIC", "topology"].every((name) => !wanted[name].value || wanted[name].value === found[name.toLowerCase()])
        && (!wanted.verdict.value || found.verdicts.split(" ").includes(wanted.verdict.value))
        && first >= 0 && words.every((word) => searched(article, one).includes(word));
      article.hidden = !fits;
      count += fits;
      if (fits) zoom(article, first / inside.length, (last + 1) / inside.length);
    }
    const hidden = new Set(articles.filter((one) => one.hidden).flatMap((one) => all("[id]", one).map((place) => `#${place.id}`)));
    for (const cell of all("a.cell")) cell.hidden = hidden.has(cell.getAttribute("href"));
    for (const list of all("section > ul")) {
      const items = all("li", list);
      for (const item of items) item.hidden = hidden.has(item.querySelector("a")?.getAttribute("href"));
      list.parentElement.hidden = items.every((item) => item.hidden);
    }
    shown.textContent = `${count} of ${articles.length} combination${articles.length === 1 ? "" : "s"} shown`;
  }
  function searched(article, one) {
    one.text ||= [article.textContent, ...one.builds.map(([, text]) => data.texts[text]), ...one.metrics.flatMap((metric) => [metric.name, ...Object.values(metric.why)])].join("\n").toLowerCase();
    return one.text;
  }
  function zoom(article, from, to) {
    for (const svg of all("svg.zoom", article)) {
      svg.setAttribute("x", `${((-from / (to - from)) * 100).toFixed(2)}%`);
      svg.setAttribute("width", `${(100 / (to - from)).toFixed(2)}%`);
    }
  }
  if (filters && articles.length) {
    wanted.text = control("text", make("input", { type: "search", placeholder: "board, kernel, reason" }));
    wanted.board = choice("board", values("board"));
    wanted.NIC = choice("NIC", values("nic"));
    wanted.topology = choice("topology", values("topology"));
    wanted.verdict = choice("verdict", values("verdicts"));
    const oneDay = new Set(data.runs.map((run) => date(run[1]).slice(0, 10))).size < 2;
    for (const name of ["from", "to"]) wanted[name] = oneDay ? { value: "" } : control(name, make("input", { type: "date" }));
    const reset = make("button", { type: "button", textContent: "show all" });
    reset.addEventListener("click", () => { filters.reset(); apply(); });
    filters.append(reset, shown);
    filters.addEventListener("submit", (event) => event.preventDefault());
    apply();
  }

  // -- boards that are out of view -------------------------------------------------------------------------------
  for (const scroll of all(".scroll:has(> .grid)")) {
    const hint = make("p", { className: "muted", hidden: true });
    const update = () => {
      const { left, right } = scroll.getBoundingClientRect();
      const away = all("thead th", scroll).slice(1).filter((head) => {
        const own = head.getBoundingClientRect();
        return own.left < left - 1 || own.right > right + 1;
      });
      hint.hidden = scroll.scrollWidth <= scroll.clientWidth || !away.length;
      hint.textContent = `Scroll the table sideways for ${away.map((head) => head.textContent).join(", ")}.`;
    };
    scroll.before(hint);
    scroll.addEventListener("scroll", update);
    new ResizeObserver(update).observe(scroll);
  }

  // -- two builds ----------------------------------------------------------------------------------------------
  const release = (text) => text.split(" ")[0];
  const compare = $("compare");
  if (compare) {
    // Kernels, and the builds of which a metric has several with one kernel: their driver or firmware differs.
    const kernels = new Map(), builds = new Map();
    for (const one of data.combinations) {
      const texts = one.builds.map(([at, text]) => [one.runs[at].time, data.texts[text]]);
      for (const [time, text] of texts) {
        const twins = texts.some(([, other]) => other !== text && release(other) === release(text));
        for (const [first, name] of twins ? [[kernels, release(text)], [builds, text]] : [[kernels, release(text)]])
          first.set(name, Math.min(first.get(name) ?? Infinity, time));
      }
    }
    // The build of a board that reports no driver is named like its kernel.
    for (const name of kernels.keys()) builds.delete(name);
    // A page of one build has nothing to compare.
    compare.parentElement.hidden = kernels.size + builds.size < 2;
    const names = [kernels, builds].flatMap((first) => [...first.keys()].sort((a, b) => first.get(b) - first.get(a)));
    const select = (name, chosen) => make("select", { name }, ...names.map((value, at) => make("option", { value, textContent: value, selected: at === chosen })));
    const newest = kernels.size > 1 || names.length < 3 ? 0 : 1;
    const a = select("A", Math.min(newest + 1, names.length - 1)), b = select("B", newest), place = make("div");
    compare.append(make("p", {}, make("label", { className: "filter" }, "A ", a), " ", make("label", { className: "filter" }, "B ", b)), place);
    const mean = (one, metric, name) => {
      const has = (build) => build === name || release(build) === name;
      const found = metric.value.filter((value, at) => value !== null && data.counted.includes(metric.verdict[at]) && has(one.build(metric.at[at])));
      return { runs: found.length, value: found.length ? found.reduce((sum, value) => sum + value, 0) / found.length : null };
    };
    const worse = ([change, metric]) => (metric.better === "down" ? -change : change);
    const show = () => {
      const rows = data.combinations.flatMap((one) => one.metrics.map((metric) => [metric, mean(one, metric, a.value), mean(one, metric, b.value)]))
        .filter(([, before, after]) => before.runs && after.runs)
        .map(([metric, before, after]) => [after.value / before.value - 1, metric, before, after]).sort((x, y) => worse(x) - worse(y));
      const cells = rows.map(([change, metric, before, after]) => row([metric.name, withUnit(metric, before.value), String(before.runs), withUnit(metric, after.value), String(after.runs), percent(change)], [1, 2, 3, 4, 5]));
      place.replaceChildren(rows.length ? table("Comparison of two builds", ["metric", "A", "runs of A", "B", "runs of B", "change"], cells)
        : make("p", { className: "muted", textContent: "No metric was measured with both builds." }));
    };
    for (const one of [a, b]) one.addEventListener("input", show);
    compare.addEventListener("toggle", show, { once: true });
  }

  // -- what is below the pointer -------------------------------------------------------------------------------
  const tip = make("div", { className: "tip", hidden: true });
  document.body.append(tip);
  document.addEventListener("pointermove", (event) => {
    const plot = event.target.closest?.("svg.plot");
    tip.hidden = !plot;
    if (!plot) return;
    const one = combinations.get(plot.closest("article").id), box = plot.querySelector("svg.zoom").getBoundingClientRect();
    const outer = plot.getBoundingClientRect(), inner = plot.querySelector("svg.zoom");
    const width = outer.width * parseFloat(inner.getAttribute("width") || "100") / 100, left = outer.left + outer.width * parseFloat(inner.getAttribute("x") || "0") / 100;
    const at = Math.max(0, Math.min(one.runs.length - 1, Math.floor(((event.clientX - left) / width) * one.runs.length)));
    const lines = one.metrics.flatMap((metric) => metric.at.map((index, place) => [index, place]).filter(([index]) => index === at)
      .map(([, place]) => `${metric.name.slice(metric.name.lastIndexOf("/") + 1)}: ${withUnit(metric, metric.value[place])}, ${metric.word(place)}`));
    tip.textContent = [minute(one.runs[at].time), one.build(at), ...lines].join("\n");
    tip.style.left = `${Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8)}px`;
  });
})();
