// The curves of all runs in one chart each, drawn by uPlot.
import { el, fixed, number } from "./markup.js";

const CHARTS = [
  { name: "F1", columns: ["f1", "window"], x: "examples" },
  { name: "Loss", columns: ["loss"], x: "examples" },
  { name: "Regret bound per example", columns: ["regret"], x: "examples" },
  { name: "Ground rules that a change of a world touches", columns: ["touched"], x: "examples", rare: true },
  { name: "Answers that a change of a world changes", columns: ["changed"], x: "examples", rare: true },
  { name: "Reliability", columns: ["true"], x: "probability", rare: true, share: true },
  { name: "Wrong atoms of the newest predictions", columns: ["wrong"], x: null },
];
const HEIGHT = 240;
const MARKED = 40; // with more points than these their marks would hide the line
let shown = [];
let current = [];

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function options(chart, runs, width) {
  const [text, rule] = [colour("--soft"), colour("--rule")];
  const axis = { stroke: text, grid: { stroke: rule, width: 1 }, ticks: { stroke: rule, width: 1 }, font: "12px system-ui, sans-serif" };
  const round = (u, splits) => {
    const digits = splits.at(-1) > 1000 * splits[0] ? "1" : "125";
    return splits.map((n) => (digits.includes(String(n)[0]) ? n : null));
  };
  const few = (u, splits) => splits.map((n) => (n == null ? "" : n >= 1000 ? `${number(n / 1000)}k` : number(n)));
  const x = chart.share ? { time: false, range: () => [0, 1] } : chart.x
    ? { time: false, distr: 3, range: (u, low, high) => [Math.max(1, low ?? 1), Math.max(2, high ?? 2)] }
    : { time: false };
  const series = runs.flatMap((run) => chart.columns.map((column, n) => ({
    label: n ? `${run.name}, since the point before` : run.name,
    stroke: colour(`--run${run.number % 6}`), width: n ? 1.5 : 2, dash: n ? [5, 4] : [], spanGaps: true,
    points: { show: (u) => chart.x !== null && u.data[0].length < MARKED, size: 5 },
    value: (u, value) => (value == null ? "–" : fixed(value)),
  })));
  return {
    width, height: HEIGHT,
    scales: { x, y: { range: (u, low, high) => bounds(chart, low, high) } },
    axes: [{ ...axis, values: few, space: 50, size: 32, ...(x.distr ? { filter: round } : {}) }, { ...axis, size: 56 }],
    series: [{ label: chart.x ?? "of the newest", value: (u, value) => (value == null ? "–" : number(value)) }, ...series],
    hooks: { draw: chart.share ? [diagonal] : chart.x ? [marks] : [] },
    legend: { show: false },
    cursor: { y: false },
  };
}

// A vertical line at each signal of drift.
function marks(u) {
  u.ctx.save();
  u.ctx.setLineDash([2, 4]);
  for (const run of current) {
    u.ctx.strokeStyle = colour(`--run${run.number % 6}`);
    for (const at of run.parts.curves?.drift ?? []) {
      const x = u.valToPos(at, "x", true);
      u.ctx.beginPath();
      u.ctx.moveTo(x, u.bbox.top);
      u.ctx.lineTo(x, u.bbox.top + u.bbox.height);
      u.ctx.stroke();
    }
  }
  u.ctx.restore();
}

// Where probabilities are calibrated.
function diagonal(u) {
  u.ctx.save();
  u.ctx.setLineDash([2, 4]);
  u.ctx.strokeStyle = colour("--soft");
  u.ctx.beginPath();
  u.ctx.moveTo(u.valToPos(0, "x", true), u.valToPos(0, "y", true));
  u.ctx.lineTo(u.valToPos(1, "x", true), u.valToPos(1, "y", true));
  u.ctx.stroke();
  u.ctx.restore();
}

function bounds(chart, low, high) {
  if (chart.share) return [0, 1];
  if (low == null) return [0, 1];
  if (chart.name === "F1") return [Math.max(0, Math.floor(low * 10 - 0.001) / 10), 1];
  return [0, high > 0 ? high * 1.05 : 1];
}

function data(chart, runs) {
  const tables = runs.flatMap((run) => {
    const curves = run.parts.curves ?? {};
    const y = curves[chart.columns[0]] ?? [];
    const x = chart.x ? curves[chart.x] ?? [] : y.map((_, n) => n + 1);
    return [[x, ...chart.columns.map((column) => curves[column] ?? [])]];
  });
  return uPlot.join(tables);
}

function empty(chart, runs) {
  const columns = runs.map((run) => run.parts.curves?.[chart.columns[0]] ?? []);
  return columns.every((column) => column.every((value) => value == null));
}

function note(chart, runs) {
  if (runs.every((run) => !run.parts.curves)) return " loading …";
  if (chart.share) return " share of true atoms by probability; calibrated on the diagonal";
  if (!empty(chart, runs)) return chart.x ? " by examples, on a logarithmic scale" : " oldest to newest";
  return chart.x ? " nothing yet" : " none in a run folder: they may be written to a topic";
}

function label(chart, runs) {
  const ends = runs.map((run) => {
    const values = (run.parts.curves?.[chart.columns[0]] ?? []).filter((value) => value != null);
    return `${run.name}: ${values.length ? `${fixed(values[values.length - 1])} at the end` : "no values yet"}`;
  });
  return `Chart of ${chart.name}. ${ends.join("; ")}.`;
}

function draw() {
  for (const each of shown) {
    each.plot?.destroy();
    each.plot = new uPlot(options(each.chart, current, each.place.clientWidth), data(each.chart, current), each.place);
    say(each, current);
  }
}

function say(each, runs) {
  each.place.setAttribute("aria-label", label(each.chart, runs));
  each.note.textContent = note(each.chart, runs);
  each.place.parentElement.hidden = Boolean(each.chart.rare) && empty(each.chart, runs);
  const hidden = each.place.hidden;
  each.place.hidden = empty(each.chart, runs);
  if (hidden && !each.place.hidden) each.plot.setSize({ width: each.place.clientWidth, height: HEIGHT });
}

export const charts = {
  begin(parent, runs) {
    current = runs;
    shown.forEach((each) => each.plot?.destroy());
    shown = CHARTS.map((chart) => ({
      chart,
      note: el("span", { class: "soft" }),
      place: el("div", { class: "plot", role: "img" }),
    }));
    parent.replaceChildren(...shown.map(({ chart, note, place }) => el("figure", {}, el("figcaption", {}, chart.name, note), place)));
    draw();
  },
  update(runs) {
    for (const each of shown) {
      each.plot.setData(data(each.chart, runs));
      say(each, runs);
    }
  },
};

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
new ResizeObserver(() => {
  for (const each of shown) if (!each.place.hidden) each.plot?.setSize({ width: each.place.clientWidth, height: HEIGHT });
}).observe(document.body);
