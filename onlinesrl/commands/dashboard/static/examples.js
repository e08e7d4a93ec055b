// The stream of examples; one that is shown already keeps its element, and with it its explanation.
import { el, number } from "./markup.js";

const FIRST = 8;
const OPEN = 40; // the atoms of an example that are seen at once
const MOST = 400; // and with those that are folded
const FOLDS = "details:not([data-key] *)"; // those within an example keep their state with it

export function examples(run, value, place) {
  const kept = new Map([...place.querySelectorAll(".example")].map((each) => [each.dataset.key, each]));
  const of = (row) => {
    const key = JSON.stringify(row);
    if (kept.has(key)) return kept.get(key);
    const made = example(run, row);
    made.dataset.key = key;
    return made;
  };
  const rows = value.marked.map((row) => ({ row, rank: rank(row) })).sort((a, b) => a.rank - b.rank);
  const marked = rows.filter((each) => each.rank < 3).map((each) => of(each.row));
  const negative = rows.length - marked.length;
  const open = [...place.querySelectorAll(FOLDS)].map((each) => each.open);
  const waiting = run.parts.head?.saved ? "Reading the last checkpoint …" : "The truth of examples comes with the first checkpoint.";
  const parts = rows.length ? marked.slice(0, FIRST) : [el("p", { class: "soft" }, waiting)];
  if (marked.length > FIRST) parts.push(details(`${number(marked.length - FIRST)} more`, marked.slice(FIRST)));
  if (negative) parts.push(el("p", { class: "soft" }, `Examples without a true or predicted atom: ${number(negative)}`));
  if (value.newest.length) parts.push(details("The newest predictions, as they are written", value.newest.map(newest)));
  const focused = place.contains(document.activeElement) ? document.activeElement : null;
  place.replaceChildren(...parts);
  [...place.querySelectorAll(FOLDS)].forEach((each, n) => { each.open = open[n] ?? false; });
  if (focused?.isConnected) focused.focus({ preventScroll: true });
  return null;
}

// 0 if an atom is wrong, 1 if one is uncertain, 2 if one is true, 3 for true negatives only.
function rank(row) {
  const unlabelled = new Set(row.unlabelled);
  const scored = row.predicted.filter((atom) => !unlabelled.has(atom));
  const truth = new Set(row.truth ?? scored);
  if (scored.length !== truth.size || scored.some((atom) => !truth.has(atom))) return 0;
  return row.uncertain.length ? 1 : row.predicted.length ? 2 : 3;
}

const details = (title, children) => el("details", {}, el("summary", {}, title), ...children);

function example(run, row) {
  const [predicted, truth] = [new Set(row.predicted), new Set(row.truth ?? [])];
  const marks = new Map();
  for (const atom of Object.keys(row.values)) marks.set(atom, "");
  for (const atom of predicted) marks.set(atom, truth.has(atom) ? "" : "wrong");
  for (const atom of truth) if (!predicted.has(atom)) marks.set(atom, "missed");
  for (const atom of row.unlabelled) marks.set(atom, "unlabelled");
  const count = (mark) => [...marks].filter(([atom, its]) => its === mark && (mark === "wrong" || mark === "missed" || predicted.has(atom))).length;
  const why = el("div", { "aria-live": "polite" });
  const explain = (atom) => (event) => ask(run, row.id, atom, why, event.currentTarget);
  const uncertain = new Set(row.uncertain);
  const order = (atom) => (["wrong", "missed"].includes(marks.get(atom)) ? 0 : uncertain.has(atom) ? 1 : 2);
  const unknown = row.unlabelled.length ? `, ${count("unlabelled")} without a truth` : "";
  const ranked = natural([...marks.keys()]).sort((a, b) => order(a) - order(b));
  const head = el("p", {},
    el("b", {}, row.id), row.group ? el("span", { class: "soft" }, row.group) : "",
    el("span", { class: "soft" }, `${count("")} correct, ${count("wrong")} wrong, ${count("missed")} missed${unknown}`),
    el("button", { type: "button", onclick: explain(null), "aria-label": `Explain example ${row.id}` }, "Why?"));
  const groups = (atoms) => grouped(atoms).map(([name, each]) => el("p", { class: "group" }, el("code", {}, name),
    ...each.flatMap(([atom, terms]) => [chip(row, atom, terms, marks.get(atom), explain(atom)), " "])));
  const first = ranked.slice(0, OPEN);
  const body = groups(Object.keys(row.values).length ? first : natural(first)); // the words of a text stay in order
  const folded = ranked.slice(OPEN, MOST);
  if (folded.length) {
    const rest = details(`${number(folded.length)} more atoms`, []);
    rest.addEventListener("toggle", () => rest.append(...groups(folded)), { once: true });
    body.push(rest);
  }
  const unseen = [];
  if (ranked.length > MOST) unseen.push(`${number(ranked.length - MOST)} atoms are not shown`);
  if (row.negatives) unseen.push(`${number(row.negatives)} true negatives`);
  if (unseen.length) body.push(el("p", { class: "soft" }, `${unseen.join("; ")}.`));
  return el("div", { class: "example" }, head, ...body, why);
}

function chip(row, atom, terms, mark, explain) {
  const value = row.values[atom];
  const shown = terms.flatMap((term, n) => [n ? ", " : "", ...(row.words[term] ? [row.words[term], el("sub", {}, term)] : [term])]);
  if (value) shown.push(el("sub", {}, ` ${value}`));
  const { label, sign } = MARKS[mark];
  return el("button", { type: "button", class: `atom ${mark}`, "aria-label": `${label}${atom}. Explain`, title: atom, onclick: explain },
    sign, ...shown);
}

const MARKS = {
  "": { label: "", sign: "" },
  wrong: { label: "Wrong: ", sign: "+\u00a0" },
  missed: { label: "Missed: ", sign: "−\u00a0" },
  unlabelled: { label: "Truth not known: ", sign: "?\u00a0" },
};
const collator = new Intl.Collator("en", { numeric: true });
const natural = (atoms) => [...atoms].sort(collator.compare);

// Atoms by predicate, and by the last term where that makes few groups; each with the terms to be shown.
function grouped(atoms) {
  const parsed = atoms.map((atom) => {
    const [, name, inside] = atom.match(/^([^(]*)\(?([^]*?)\)?$/);
    return { atom, name, terms: inside.match(/"(?:\\.|[^"\\])*"|[^,\s"]+/g)?.map(plain) ?? [] };
  });
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
  const certified = row.certified === false ? ", not certified" : "";
  const atoms = row.atoms.join(" ") || "no true atom";
  return el("div", { class: "example" },
    el("p", {}, el("b", {}, row.id), el("span", { class: "soft" }, `${row.group ? `${row.group}, ` : ""}${wrong}${certified}`)),
    details(`${number(row.atoms.length + row.more)} atoms`, [el("code", {}, atoms + (row.more ? ` and ${number(row.more)} more` : ""))]));
}

async function ask(run, id, atom, why, button) {
  button.disabled = true;
  const asked = el("p", { class: "soft" }, `explaining ${atom ?? "the least certain atom"} …`);
  why.replaceChildren(asked);
  const query = new URLSearchParams({ run: run.number, id, ...(atom ? { atom } : {}) });
  let said;
  try {
    said = await (await fetch(`/explain?${query}`)).json();
  } catch {
    said = { error: "the dashboard does not answer" };
  }
  button.disabled = false;
  if (!asked.isConnected) return; // another atom has been asked for since
  button.focus({ preventScroll: true });
  why.replaceChildren(said.lines ? el("pre", {}, said.lines.join("\n")) : el("p", { class: "error" }, said.error));
}
