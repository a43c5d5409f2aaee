// Text that people and agents wrote, as elements. It is never taken for markup: a string becomes a text node, and only a
// handful of Markdown's forms are known. A link leads to the web or nowhere.

import { html } from "./ui.js";

const FENCE = /^```/;
const ITEM = /^\s*(?:[-*•]|(\d+)[.)])\s+(.*)$/;
const HEADING = /^#{1,6}\s+(.*)$/;
const INLINE = /(`[^`]+`)|(\*\*[^*]+\*\*)|(\[[^\]\n]+\]\(https?:\/\/[^\s()]+\))|(https?:\/\/[^\s<>"'`]*[^\s<>"'`.,;:!?)\]])/g;

export function Prose({ text }) {
  return html`<div class="prose">${blocks(String(text)).map(drawn)}</div>`;
}

/** Lines put together: code between fences, items of a list, headings, paragraphs. */
export function blocks(text) {
  const found = [];
  let open = null;
  for (const line of text.split(/\r?\n/)) {
    open = continued(found, open, line);
  }
  return found;
}

function continued(found, open, line) {
  if (open?.kind === "code") {
    if (FENCE.test(line)) return null;
    open.lines.push(line);
    return open;
  }
  const next = begun(line);
  if (!next) return null;
  if (open && open.kind === next.kind && next.kind !== "heading") {
    open.lines.push(...next.lines);
    return open;
  }
  found.push(next);
  return next;
}

function begun(line) {
  if (FENCE.test(line)) return { kind: "code", lines: [] };
  if (!line.trim()) return null;
  const [item, heading] = [ITEM.exec(line), HEADING.exec(line)];
  if (item) return item[1] ? { kind: "numbered", lines: [item[2]], start: item[1] } : { kind: "list", lines: [item[2]] };
  if (heading) return { kind: "heading", lines: [heading[1]] };
  return { kind: "paragraph", lines: [line] };
}

function drawn({ kind, lines, start }) {
  if (kind === "code") return html`<pre tabindex="0"><code>${lines.join("\n")}</code></pre>`;
  if (kind === "list") return html`<ul>${lines.map((line) => html`<li>${inline(line)}</li>`)}</ul>`;
  if (kind === "numbered") return html`<ol start=${start}>${lines.map((line) => html`<li>${inline(line)}</li>`)}</ol>`;
  if (kind === "heading") return html`<p class="heading">${inline(lines[0])}</p>`;
  return html`<p>${lines.flatMap((line, index) => (index ? [html`<br />`, ...inline(line)] : inline(line)))}</p>`;
}

export function inline(text) {
  const parts = [];
  let end = 0;
  for (const match of text.matchAll(INLINE)) {
    if (match.index > end) parts.push(text.slice(end, match.index));
    parts.push(marked(match));
    end = match.index + match[0].length;
  }
  if (end < text.length) parts.push(text.slice(end));
  return parts;
}

function marked([whole, code, strong, link]) {
  if (code) return html`<code>${code.slice(1, -1)}</code>`;
  if (strong) return html`<strong>${strong.slice(2, -2)}</strong>`;
  if (!link) return anchor(whole, whole);
  const cut = link.indexOf("](");
  return anchor(link.slice(cut + 2, -1), link.slice(1, cut));
}

const anchor = (address, label) => html`<a href=${address} target="_blank" rel="noopener noreferrer nofollow">${label}</a>`;
