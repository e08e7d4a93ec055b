// The stream of examples; one that is shown already keeps its element, and with it its explanation.
import { el, number } from "./markup.js";

const FIRST = 8;

export function examples(run, value, place) {
  const kept = new Map([...place.querySelectorAll(".example")].map((each) => [each.dataset.key, each]));
  const of = (row) => {
    const key = JSON.stringify(row);
    if (kept.has(key)) return kept.get(key);
    const made = example(run, row);
    made.dataset.key = key;
    return made;
  };
  const marked = value.marked.map(of);
  const open = [...place.querySelectorAll("details")].map((each) => each.open);
  const parts = marked.length ? marked.slice(0, FIRST)
    : [el("p", { class: "soft" }, "The truth of examples comes with the next checkpoint.")];
  if (marked.length > FIRST) parts.push(details(`${number(marked.length - FIRST)} earlier ones`, marked.slice(FIRST)));
  if (value.newest.length) parts.push(details("The newest predictions, as they are written", value.newest.map(newest)));
  const focused = place.contains(document.activeElement) ? document.activeElement : null;
  place.replaceChildren(...parts);
  [...place.querySelectorAll("details")].forEach((each, n) => { each.open = open[n] ?? false; });
  if (focused?.isConnected) focused.focus({ preventScroll: true });
  return null;
}

const details = (title, children) => el("details", {}, el("summary", {}, title), ...children);

function example(run, row) {
  const [predicted, truth] = [new Set(row.predicted), new Set(row.truth ?? [])];
  const marks = new Map();
  for (const atom of Object.keys(row.values)) marks.set(atom, "");
  for (const atom of predicted) marks.set(atom, truth.has(atom) ? "" : "wrong");
  for (const atom of truth) if (!predicted.has(atom)) marks.set(atom, "missed");
  const count = (mark) => [...marks].filter(([atom, its]) => its === mark && (mark || predicted.has(atom))).length;
  const why = el("div", { "aria-live": "polite" });
  const explain = (atom) => (event) => ask(run, row.id, atom, why, event.currentTarget);
  const head = el("p", {},
    el("b", {}, row.id), row.group ? el("span", { class: "soft" }, row.group) : "",
    el("span", { class: "soft" }, `${count("")} correct, ${count("wrong")} wrong, ${count("missed")} missed`),
    el("button", { type: "button", onclick: explain(null), "aria-label": `Explain example ${row.id}` }, "Why?"));
  const groups = grouped([...marks.keys()]).map(([name, atoms]) => el("p", { class: "group" }, el("code", {}, name),
    ...atoms.flatMap(([atom, terms]) => [chip(row, atom, terms, marks.get(atom), explain(atom)), " "])));
  const body = groups.length ? groups : [el("p", { class: "soft" }, "No atom is predicted or true.")];
  return el("div", { class: "example" }, head, ...body, why);
}

function chip(row, atom, terms, mark, explain) {
  const value = row.values[atom];
  const shown = terms.flatMap((term, n) => [n ? ", " : "", ...(row.words[term] ? [row.words[term], el("sub", {}, term)] : [term])]);
  if (value) shown.push(el("sub", {}, ` ${value}`));
  if (!mark) return el("span", { class: "atom", title: atom }, ...shown);
  const label = `${mark === "wrong" ? "Wrong" : "Missed"}: ${atom}. Explain`;
  return el("button", { type: "button", class: `atom ${mark}`, "aria-label": label, title: atom, onclick: explain },
    mark === "wrong" ? "+\u00a0" : "−\u00a0", ...shown);
}

// Atoms by predicate, and by the last term where that makes few groups; each with the terms to be shown.
function grouped(atoms) {
  const parsed = atoms.map((atom) => {
    const [, name, inside] = atom.match(/^([^(]*)\(?([^]*?)\)?$/);
    return { atom, name, terms: inside.match(/"(?:\\.|[^"\\])*"|[^,\s"]+/g)?.map(plain) ?? [] };
  });
  const natural = new Intl.Collator("en", { numeric: true });
  parsed.sort((a, b) => natural.compare(a.atom, b.atom));
  const ends = new Set(parsed.map(({ name, terms }) => `${name}\n${terms.at(-1)}`));
  const share = 2 * ends.size <= parsed.length && parsed.every(({ terms }) => terms.length > 1);
  const found = new Map();
  for (const { atom, name, terms } of parsed) {
    const head = share ? `${name}(…, ${terms.at(-1)})` : `${name}(…)`;
    found.set(head, [...(found.get(head) ?? []), [atom, share ? terms.slice(0, -1) : terms]]);
  }
  return [...found];
}

const plain = (term) => (term.startsWith('"') ? term.slice(1, -1).replace(/\\(.)/g, "$1") : term);

function newest(row) {
  const wrong = row.hamming == null ? "truth not known" : `${number(row.hamming)} wrong`;
  const certified = row.certified ? "" : ", not certified";
  const atoms = row.atoms.join(" ") || "no true atom";
  return el("div", { class: "example" },
    el("p", {}, el("b", {}, row.id), el("span", { class: "soft" }, `${row.group ? `${row.group}, ` : ""}${wrong}${certified}`)),
    details(`${number(row.atoms.length + row.more)} atoms`, [el("code", {}, atoms + (row.more ? ` and ${number(row.more)} more` : ""))]));
}

async function ask(run, id, atom, why, button) {
  button.disabled = true;
  why.replaceChildren(el("p", { class: "soft" }, "explaining …"));
  const query = new URLSearchParams({ run: run.number, id, ...(atom ? { atom } : {}) });
  let said;
  try {
    said = await (await fetch(`/explain?${query}`)).json();
  } catch {
    said = { error: "the dashboard does not answer" };
  }
  button.disabled = false;
  button.focus({ preventScroll: true });
  why.replaceChildren(said.lines ? el("pre", {}, said.lines.join("\n")) : el("p", { class: "error" }, said.error));
}
