// Markdown of people and agents. marked parses it; this module makes the elements, so HTML stays text, images become links, and links lead to the web only.

import { lexer } from "./vendor/marked.js";
import { Diff, isDiff } from "./diff.js";
import { html, useMemo } from "./ui.js";

const LONGEST = 100_000; // characters; longer text is not parsed
const WEB = /^https?:\/\//i;

export function Prose({ text }) {
  const source = String(text);
  const drawn = useMemo(() => (source.length > LONGEST ? html`<pre tabindex="0">${source}</pre>` : read(source)), [source]);
  return html`<div class="prose">${drawn}</div>`;
}

function read(source) {
  try {
    return all(lexer(source, { gfm: true, breaks: true }));
  } catch {
    return html`<pre tabindex="0">${source}</pre>`; // nested too deeply for the parser
  }
}

const all = (tokens = []) => tokens.map(element);

function element(token) {
  const draw = ELEMENTS[token.type];
  return draw ? draw(token) : token.raw;
}

const ELEMENTS = {
  space: () => null,
  def: () => null,
  paragraph: ({ tokens }) => html`<p>${all(tokens)}</p>`,
  heading: ({ tokens }) => html`<p class="heading">${all(tokens)}</p>`,
  blockquote: ({ tokens }) => html`<blockquote>${all(tokens)}</blockquote>`,
  code: ({ text }) => (isDiff(text) ? html`<${Diff} text=${text} />` : html`<pre tabindex="0"><code>${text}</code></pre>`),
  hr: () => html`<hr />`,
  list: ({ ordered, start, items }) => (ordered ? html`<ol start=${start}>${items.map(item)}</ol>` : html`<ul>${items.map(item)}</ul>`),
  table: ({ header, rows }) => html`<div class="table" tabindex="0"><table>
    <thead><tr>${header.map((cell) => html`<th scope="col">${all(cell.tokens)}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr>${row.map((cell) => html`<td>${all(cell.tokens)}</td>`)}</tr>`)}</tbody>
  </table></div>`,
  html: ({ text }) => text,
  checkbox: ({ checked }) => html`<${Box} checked=${checked} />`,
  text: ({ text, tokens }) => (tokens ? all(tokens) : decoded(text)),
  escape: ({ text }) => text,
  strong: ({ tokens }) => html`<strong>${all(tokens)}</strong>`,
  em: ({ tokens }) => html`<em>${all(tokens)}</em>`,
  del: ({ tokens }) => html`<del>${all(tokens)}</del>`,
  codespan: ({ text }) => html`<code>${text}</code>`,
  br: () => html`<br />`,
  link: ({ href, tokens, raw }) => (WEB.test(href) ? anchor(href, all(tokens)) : raw),
  image: ({ href, text, raw }) => (WEB.test(href) ? anchor(href, text || href) : raw),
};

const item = ({ task, tokens }) => html`<li class=${task ? "todo" : undefined}>${all(tokens)}</li>`;

const anchor = (address, label) => html`<a href=${address} target="_blank" rel="noopener noreferrer nofollow">${label}</a>`;

/** An item of a checklist, with an image of a box, since it cannot be ticked here. */
const Box = ({ checked }) => html`<svg class="box" role="img" aria-label=${checked ? "done:" : "to do:"} viewBox="0 0 16 16" width="14" height="14">
  <rect x="1.5" y="1.5" width="13" height="13" rx="3" fill="none" stroke="currentColor" stroke-width="1.4" />
  ${checked && html`<path d="m4.6 8.2 2.3 2.4 4.5-5" fill="none" stroke="currentColor" stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round" />`}
</svg>`;

const ENTITIES = { amp: "&", lt: "<", gt: ">", quot: '"', "#39": "'", nbsp: "\u00a0" };
const decoded = (text) => text.replace(/&(amp|lt|gt|quot|#39|nbsp);/g, (_, name) => ENTITIES[name]);

// JSON values as names, lists and tables.

const DEEPEST = 4;
const MOST_COLUMNS = 6;
const MOST_ROWS = 100;

const isPlain = (value) => value === null || typeof value !== "object";
const isFlat = (value) => !isPlain(value) && !Array.isArray(value) && Object.values(value).every(isPlain);

/** A JSON value: text as Markdown, an object by its names, a list of similar objects as a table. */
export function Value({ value, depth = 0 }) {
  if (isDiff(value)) return html`<${Diff} text=${value} />`;
  if (typeof value === "string") return html`<${Prose} text=${value} />`;
  if (isPlain(value)) return html`<span class="plain-value">${value === null ? "none" : value === true ? "yes" : value === false ? "no" : String(value)}</span>`;
  if (depth >= DEEPEST) return html`<pre tabindex="0"><code>${JSON.stringify(value, null, 2)}</code></pre>`;
  if (Array.isArray(value)) return html`<${Items} items=${value} depth=${depth} />`;
  const entries = Object.entries(value);
  if (!entries.length) return html`<span class="plain-value">none</span>`;
  return html`<dl class="outcome">${entries.map(([name, each]) => html`<div key=${name} class=${isPlain(each) ? "short" : ""}><dt>${named(name)}</dt><dd><${Value} value=${each} depth=${depth + 1} /></dd></div>`)}</dl>`;
}

function Items({ items, depth }) {
  if (!items.length) return html`<span class="plain-value">none</span>`;
  const shown = items.slice(0, MOST_ROWS);
  const more = items.length > shown.length && html`<p class="muted">and ${items.length - shown.length} more</p>`;
  const columns = items.every(isFlat) ? [...new Set(shown.flatMap(Object.keys))] : [];
  if (columns.length && columns.length <= MOST_COLUMNS) {
    return html`<div class="table" tabindex="0"><table>
      <thead><tr>${columns.map((name) => html`<th scope="col">${named(name)}</th>`)}</tr></thead>
      <tbody>${shown.map((row) => html`<tr>${columns.map((name) => html`<td>${row[name] === undefined ? "" : html`<${Value} value=${row[name]} depth=${depth + 1} />`}</td>`)}</tr>`)}</tbody>
    </table></div>${more}`;
  }
  return html`<ul class="values">${shown.map((each) => html`<li><${Value} value=${each} depth=${depth + 1} /></li>`)}</ul>${more}`;
}

/** Identifiers as words. */
const named = (name) => (/^[a-z][a-z0-9_]*$/.test(name) ? name.replaceAll("_", " ") : name);
