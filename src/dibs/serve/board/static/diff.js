// A unified diff as files and lines. Long and numerous files are folded; added and removed lines have a sign and a colour.

import { html } from "./ui.js";
import { plural } from "./words.js";

const LONG = 120; // lines of a file that are shown at once
const MANY = 8; // files that are open at first
const MOST = 4000; // lines of a file

export const isDiff = (text) => typeof text === "string" && (/^diff --git /m.test(text) || /^--- .+\n\+\+\+ .+\n@@ /m.test(text));

/** The files of a diff: name, lines with their kind, and how many were added and removed. */
export function filesOf(text) {
  const files = [];
  let left = { old: 0, fresh: 0 }; // remaining lines of the hunk
  for (const line of text.split(/\r?\n/)) {
    const file = files.at(-1);
    if (file && (left.old > 0 || left.fresh > 0)) left = inHunk(file, line, left);
    else if (line.startsWith("@@") && file) left = hunk(file, line);
    else header(files, line);
  }
  return files;
}

function inHunk(file, line, { old, fresh }) {
  const kind = { "+": "added", "-": "removed", "\\": "note" }[line[0]] ?? "same";
  file.lines.push({ kind, line });
  if (kind === "added") file.added += 1;
  if (kind === "removed") file.removed += 1;
  return { old: old - (kind === "removed" || kind === "same"), fresh: fresh - (kind === "added" || kind === "same") };
}

function hunk(file, line) {
  const [, old = "1", fresh = "1"] = /^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@/.exec(line) ?? [];
  file.lines.push({ kind: "hunk", line });
  return { old: Number(old), fresh: Number(fresh) };
}

function header(files, line) {
  const git = /^diff --git a\/.* b\/(.*)$/.exec(line);
  const last = files.at(-1);
  const begins = git || (line.startsWith("--- ") && !(last?.git && !last.lines.some(({ kind }) => kind === "hunk")));
  if (begins) files.push({ name: git?.[1] ?? "", git: Boolean(git), lines: [], added: 0, removed: 0 });
  const file = files.at(-1);
  const named = /^\+\+\+ (?:b\/)?([^\t]*)/.exec(line);
  if (named && file && !file.name) file.name = named[1];
  if (file && /^(new|deleted|rename|similarity|old mode|Binary)/.test(line)) file.lines.push({ kind: "note", line });
}

export function Diff({ text }) {
  const files = filesOf(text);
  const added = files.reduce((sum, file) => sum + file.added, 0);
  const removed = files.reduce((sum, file) => sum + file.removed, 0);
  return html`<div class="diff">
    <p class="muted">${plural(files.length, "file")} · <${Size} added=${added} removed=${removed} /></p>
    ${files.map((file, index) => html`<details key=${`${index} ${file.name}`} open=${index < MANY && file.lines.length <= LONG}>
      <summary><code>${file.name || "file"}</code> <${Size} added=${file.added} removed=${file.removed} />${file.lines.length > LONG && html`<span class="muted"> · ${plural(file.lines.length, "line")}</span>`}</summary>
      <pre tabindex="0"><code>${file.lines.slice(0, MOST).map(({ kind, line }, at) => html`<span key=${at} class=${kind}>${`${line}\n`}</span>`)}</code></pre>
      ${file.lines.length > MOST && html`<p class="muted">and ${file.lines.length - MOST} more lines</p>`}
    </details>`)}
  </div>`;
}

export const Size = ({ added = 0, removed = 0 }) =>
  html`<span class="size"><span class="added" aria-label=${plural(added, "line added", "lines added")}>+${added}</span> <span class="removed" aria-label=${plural(removed, "line removed", "lines removed")}>−${removed}</span></span>`;
