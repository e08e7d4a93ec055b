// The elements that the page is made of.

export function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "style") made.style.cssText = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value);
  }
  made.append(...children.map((child) => typeof child === "string" ? plain(child) : child));
  return made;
}

// Text without characters that reorder what comes after them, beyond the end of a name.
const plain = (text) => text.replace(/[\u202a-\u202e\u2066-\u2069]/g, "\ufffd");

export const number = (value) => (value == null ? "–" : value.toLocaleString("en"));

export function fixed(value) {
  if (value == null) return "–";
  const size = Math.abs(value);
  return size >= 1e5 || (size < 5e-4 && size > 0) ? value.toExponential(1) : value.toFixed(size >= 1000 ? 0 : 3);
}

export function when(seconds) {
  if (seconds == null) return "–";
  const ago = Math.max(0, Math.round(Date.now() / 1000 - seconds));
  if (ago < 5) return "just now";
  if (ago < 120) return `${ago} s ago`;
  return ago < 7200 ? `${Math.round(ago / 60)} min ago` : new Date(seconds * 1000).toLocaleString("sv").slice(0, 16);
}

export function card(run, section) {
  const id = `${section}-${run.number}`;
  const title = el("h3", { id: `${id}-title` }, run.name);
  if (section === "runs" && run.name !== run.path) title.append(el("small", {}, run.path));
  return el("article", { class: "run", id, "aria-labelledby": `${id}-title`, style: `--colour:var(--run${run.number % 6})` },
    title, el("div", { class: "body" }, el("p", { class: "soft" }, "loading …")));
}

export function figures(values) {
  const shown = Object.entries(values).filter(([, value]) => value !== undefined);
  return el("dl", { class: "figures" }, ...shown.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

// `first`: the first column that has numbers.
export function table(names, rows, first = 1) {
  const side = (n) => (n >= first ? { class: "number" } : {});
  const head = el("tr", {}, ...names.map((name, n) => el("th", { scope: "col", ...side(n) }, name)));
  const body = rows.map((row) => el("tr", {}, ...row.map((value, n) => el("td", side(n), value))));
  return el("div", { class: "scroll" }, el("table", {}, el("thead", {}, head), el("tbody", {}, ...body)));
}
