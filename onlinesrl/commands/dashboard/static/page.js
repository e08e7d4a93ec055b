// Shows what the server's events say of runs. Text goes into the page as text, never as markup.
import { charts } from "./charts.js";
import { examples } from "./examples.js";
import { card, el, figures, fixed, number, table, when } from "./markup.js";

const FIRST = 10;
const runs = [];
const link = document.getElementById("link");

function names(paths) {
  const last = paths.map((path) => path.split("/").filter(Boolean).pop() ?? path);
  return paths.map((path, n) => (last.indexOf(last[n]) === last.lastIndexOf(last[n]) ? last[n] : path));
}

function begin(paths) {
  if (JSON.stringify(paths) === JSON.stringify(runs.map((run) => run.path))) return;
  runs.splice(0);
  names(paths).forEach((name, number) => runs.push({ number, name, path: paths[number], parts: {} }));
  for (const section of ["runs", "weights", "examples", "operation"]) {
    document.querySelector(`#${section} .runs`).replaceChildren(...runs.map((run) => card(run, section)));
  }
  document.getElementById("keys").replaceChildren(
    ...runs.map((run) => el("span", {}, el("i", { style: `--colour:var(--run${run.number % 6})` }), run.name)),
    el("span", {}, el("i", { class: "dashed" }), "dashed: F1 in the window since the point before"),
    el("span", {}, el("i", { class: "drift" }), "vertical: a signal of drift"),
  );
  charts.begin(document.querySelector("#curves .charts"), runs);
}

const show = {
  head(run, value) {
    const last = value.last ?? {};
    const each = last.regret_bound == null || !last.updates ? null : last.regret_bound / last.updates;
    const state = el("span", { class: `state ${value.state.replace(" ", "-")}` }, value.state);
    return [figures({
      state,
      examples: number(last.examples),
      F1: fixed(last.f1),
      "F1, last window": fixed(last.window?.f1),
      "mean absolute error": last.mae == null ? undefined : fixed(last.mae),
      "average precision": last.average_precision == null ? undefined : fixed(last.average_precision),
      "Brier score": last.brier == null ? undefined : fixed(last.brier),
      "calibration error": last.calibration_error == null ? undefined : fixed(last.calibration_error),
      temperature: last.temperature == null ? undefined : fixed(last.temperature),
      facts: last.facts == null ? undefined : number(last.facts),
      "answers changed": last.changed_atoms == null ? undefined : number(last.changed_atoms),
      loss: fixed(last.loss),
      "drift, at example": last.drift?.at.length ? number(last.drift.at.at(-1)) : undefined,
      "regret bound, per example": fixed(each),
      weights: number(last.weights),
      updates: number(last.updates),
      bad: number(last.bad),
      "last checkpoint": when(value.saved),
      "last written": when(value.written),
    })];
  },
  weights(run, value) {
    const parts = [];
    if (value.error) parts.push(el("p", { class: "error" }, `The last checkpoint could not be read: ${value.error}`));
    if (!value.heaviest) return [...parts, el("p", { class: "soft" }, run.parts.head?.saved ? "Reading the last checkpoint …" : "Waiting for the first checkpoint.")];
    parts.push(el("h4", {}, "Most influential, by rule"), weights(value.heaviest.slice(0, FIRST), "updates", number));
    const rest = value.heaviest.slice(FIRST);
    if (rest.length) parts.push(el("details", {}, el("summary", {}, `${number(rest.length)} more`), weights(rest, "updates", number)));
    parts.push(el("h4", {}, "Moved most since the checkpoint before"));
    if (!value.moved) parts.push(el("p", { class: "soft" }, "There is no checkpoint before."));
    else if (!value.moved.length) parts.push(el("p", { class: "soft" }, "None has moved."));
    else parts.push(weights(value.moved, "change", signed));
    return parts;
  },
  examples,
  operation(run, value) {
    const last = value.last ?? {};
    const since = value.since ?? {};
    const latency = since.examples > 0 ? since.seconds / since.examples
      : last.examples > 0 && value.seconds != null ? value.seconds / last.examples : null;
    const routes = Object.entries(last.routes ?? {});
    return [
      figures({
        "wall time per example": latency == null ? "–" : duration(latency),
        "wall time": value.seconds == null ? "–" : duration(value.seconds),
        certified: last.certified == null ? "–" : number(last.certified),
        unsolved: number(last.unsolved),
        audited: number(last.audited),
        "not yet read": unread(value.lag),
      }),
      ...partitions(value.lag),
      el("h4", {}, "Solver routes"),
      routes.length ? table(["route", "examples"], routes.map(([route, count]) => [route, number(count)])) : none(),
      el("h4", {}, "Slowest examples"),
      value.slowest.length
        ? table(["example", "route", "open atoms", "seconds"],
          value.slowest.map((each) => [String(each.id), each.route, number(each.atoms), fixed(each.seconds)]), 2)
        : none(),
      el("h4", {}, `Dead letters: ${number(last.bad ?? 0)}`),
      ...letters(value, last),
      el("h4", {}, "Checkpoints"),
      value.checkpoints.length
        ? table(["file", "written", "bytes"],
          value.checkpoints.map((each) => [each.name, when(each.time), number(each.bytes)]), 2)
        : none(),
    ];
  },
};

const none = () => el("p", { class: "soft" }, "None.");
const signed = (value) => (value >= 0 ? "+" : "−") + fixed(Math.abs(value));

function duration(seconds) {
  if (seconds < 1) return `${(seconds * 1000).toPrecision(3)} ms`;
  return seconds < 120 ? `${seconds.toPrecision(3)} s` : `${number(Math.round(seconds / 60))} min`;
}

function unread(value) {
  if (value == null) return "–";
  if (!value.offsets) return `${number(value.bytes)} of ${number(value.of)} bytes`;
  const behind = Object.values(value.behind);
  return behind.length ? `${number(behind.reduce((sum, each) => sum + each))} records` : "–";
}

function partitions(value) {
  const rows = Object.entries(value?.offsets ?? {}).map(([name, offset]) => [name, number(offset), number(value.behind[name])]);
  return rows.length ? [el("h4", {}, "Partitions"), table(["partition", "read to", "not yet read"], rows)] : [];
}

function letters(value, last) {
  const kinds = Object.entries(last.errors ?? {});
  const parts = [];
  if (kinds.length) parts.push(table(["kind", "examples"], kinds.map(([kind, count]) => [kind, number(count)])));
  if (value.letters.length) {
    const rows = value.letters.map((each) => [each.id ?? `${each.file}:${each.line}`, each.reason]);
    parts.push(el("details", {}, el("summary", {}, "the newest ones"), table(["example", "reason"], rows, 9)));
  }
  return parts.length ? parts : [none()];
}

function weights(rows, column, shown) {
  const most = Math.max(...rows.map((row) => Math.abs(row.weight)), 1e-9);
  const body = el("tbody");
  const rules = new Map();
  for (const row of rows) rules.set(row.rule, [...(rules.get(row.rule) ?? []), row]);
  for (const [rule, of] of rules) {
    body.append(el("tr", {}, el("th", { class: "rule", colspan: 4, scope: "rowgroup" }, el("code", {}, rule))));
    for (const row of of) {
      const half = (50 * Math.abs(row.weight)) / most;
      const bar = el("i", { class: row.weight < 0 ? "minus" : "", style: `left:${row.weight < 0 ? 50 - half : 50}%;width:${half}%` });
      body.append(el("tr", {},
        el("td", {}, row.instance || "the rule"),
        el("td", { class: "bar", "aria-hidden": "true" }, el("span", { class: "track" }, bar)),
        el("td", { class: "number" }, signed(row.weight)),
        el("td", { class: "number" }, shown(row[column]))));
    }
  }
  const head = el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "instance"), el("th", {}),
    el("th", { scope: "col", class: "number" }, "weight"), el("th", { scope: "col", class: "number" }, column)));
  return el("div", { class: "scroll" }, el("table", {}, head, body));
}

function part({ run: number, name, value }) {
  const run = runs[number];
  run.parts[name] = value;
  if (name === "curves") return charts.update(runs);
  const section = name === "head" ? "runs" : name;
  const place = document.querySelector(`#${section}-${number} .body`);
  const before = [...place.querySelectorAll("details")];
  const focused = before.findIndex((each) => each.contains(document.activeElement));
  const shown = show[name](run, value, place);
  if (!shown) return;
  place.replaceChildren(...shown);
  [...place.querySelectorAll("details")].forEach((each, n) => {
    each.open = before[n]?.open ?? false;
    if (n === focused) each.querySelector("summary").focus({ preventScroll: true });
  });
}

const events = new EventSource("/events");
events.addEventListener("open", () => { link.textContent = "live"; link.className = ""; });
events.addEventListener("error", () => { link.textContent = "no connection; trying again"; link.className = "lost"; });
events.addEventListener("runs", (event) => begin(JSON.parse(event.data)));
events.addEventListener("part", (event) => part(JSON.parse(event.data)));
setInterval(() => runs.forEach((run) => run.parts.head && part({ run: run.number, name: "head", value: run.parts.head })), 5000);
